package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.number.Float8Format;
import dev.octet.trainer.kernel.ForwardOp;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * Codes of a tensor with the scale that earlier steps left: {@code code = cast(f32(x · quantScale))}, saturating. While it casts it finds
 * the amax of the F32 values, NaN left out, and raises the pending element of the history to it.
 *
 * <p>Inputs: x; quantScale, F32 [1]; with {@code historyLength} above 0 the history, F32 [historyLength]. Outputs: the codes, one a byte,
 * of the shape of x; the scale that belongs to them, 1 / quantScale, F32 [1, 1]; the history, which is the input of that name, changed.
 *
 * @param historyLength 0 when nothing is recorded
 */
public record QuantizeFp8Delayed(OperandType x, Float8Format format, int historyLength) implements ForwardOp {
    /** Its row in the table of operators. */
    public static final OpEntry<QuantizeFp8Delayed> ENTRY = OpEntry.of(
            QuantizeFp8Delayed.class,
            new QuantizeFp8DelayedReference(),
            new QuantizeFp8DelayedCpu(),
            new QuantizeFp8DelayedCuda());

    @Override
    public boolean forwardReadsInput(int i) {
        return i < 2 || historyLength > 0;
    }

    /** Without the history. */
    @Override
    public Op again() {
        return new QuantizeFp8Delayed(x, format, 0);
    }

    @Override
    public String type() {
        return "QuantizeFp8Delayed";
    }

    @Override
    public List<OperandType> outputs() {
        OperandType codes = x.as(format.dtype());
        OperandType scale = new OperandType(DType.F32, Shape.of(1, 1));
        return historyLength == 0
                ? List.of(codes, scale)
                : List.of(codes, scale, new OperandType(DType.F32, Shape.of(historyLength)));
    }
}
