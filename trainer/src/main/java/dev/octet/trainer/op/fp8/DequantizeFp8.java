package dev.octet.trainer.op.fp8;

import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.scale.TransformerEngineScale;
import dev.octet.trainer.kernel.ForwardOp;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * What codes stand for: {@code y = f32(code · scale)}, rounded to the type of y; the other way of {@link QuantizeFp8}.
 *
 * <p>Inputs: the codes, one a byte, of the shape of y; their scales, F32 [grid].
 *
 * @param y F32, BF16 or F16
 */
public record DequantizeFp8(OperandType y, CodedMatrix form) implements ForwardOp {
    /** Its row in the table of operators. */
    public static final OpEntry<DequantizeFp8> ENTRY = OpEntry.of(
            DequantizeFp8.class, new DequantizeFp8Reference(), new DequantizeFp8Cpu(), new DequantizeFp8Cuda());

    /**
     * The form in which activations are kept: E4M3, a scale of its own for each run of {@code group} elements along the last axis, {@code amax / 448}, so that nothing
     * is clipped.
     */
    public static CodedMatrix kept(OperandType x, int group) {
        int cols = Math.toIntExact(x.shape().rank() == 0 ? 1 : x.shape().dim(-1));
        int rows = Math.toIntExact(cols == 0 ? 0 : x.count() / cols);
        return new CodedMatrix(
                Float8Format.E4M3FN,
                CodedMatrix.blocks(new Granularity.PerGroup(1, group), rows, cols),
                new TransformerEngineScale(0, false, false));
    }

    @Override
    public String type() {
        return "DequantizeFp8";
    }

    @Override
    public List<OperandType> outputs() {
        return List.of(y);
    }
}
