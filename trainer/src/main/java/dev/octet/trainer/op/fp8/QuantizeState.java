package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.scale.MsampScale;
import dev.octet.trainer.kernel.ForwardOp;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.state.StateForm;
import java.util.List;

/**
 * Codes of a tensor that is kept in another form, with a power of two from its own values: MS-AMP's cast of a weight from scaled F16 to E4M3
 * (msamp/common/tensor/tensor.py, {@code cast}), without a copy in F32. As all scales are powers of two, the codes are those of the weight's numbers.
 *
 * <p>Inputs: the tensor's parts. Outputs: codes, of its shape; the scale that belongs to them, F32 [1, 1].
 *
 * @param form how the tensor is kept
 * @param tensor its shape
 * @param rule of the new scale, which is 1 for zeros
 */
public record QuantizeState(StateForm form, OperandType tensor, Float8Format format, MsampScale rule)
        implements ForwardOp {
    /** Its row in the table of operators. */
    public static final OpEntry<QuantizeState> ENTRY = OpEntry.of(
            QuantizeState.class, new QuantizeStateReference(), new QuantizeStateCpu(), new QuantizeStateCuda());

    @Override
    public String type() {
        return "QuantizeState";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(tensor.as(format.dtype()), new OperandType(DType.F32, Shape.of(1, 1)));
    }
}
