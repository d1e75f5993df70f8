package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.scale.WindowedScale;
import dev.octet.trainer.kernel.ForwardOp;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.List;

/**
 * Codes of a tensor with the scale of a window of steps: {@link WindowedScale#cast}, then {@code code = cast(f32(x · quantScale))}, saturating.
 *
 * <p>Inputs: x; quantScale, F32 [1]; the window, F32 [size + 1]. Outputs: the codes, of the shape of x; the scale that belongs to them, 1 / quantScale, F32 [1, 1]; and
 * where {@code records}, quantScale and the window, changed. A program that only evaluates records nothing: it takes the scale that the next step would begin with.
 */
public record QuantizeWindowed(OperandType x, Float8Format format, WindowedScale rule, boolean records)
        implements ForwardOp {
    /** Its row in the table of operators. */
    public static final OpEntry<QuantizeWindowed> ENTRY = OpEntry.of(
            QuantizeWindowed.class,
            new QuantizeWindowedReference(),
            new QuantizeWindowedCpu(),
            new QuantizeWindowedCuda());

    @Override
    public String type() {
        return "QuantizeWindowed";
    }

    @Override
    public List<OperandType> outputs() {
        OperandType codes = x.as(format.dtype());
        OperandType scale = new OperandType(DType.F32, Shape.of(1, 1));
        OperandType one = new OperandType(DType.F32, Shape.of(1));
        return records
                ? List.of(codes, scale, one, new OperandType(DType.F32, Shape.of(rule.length())))
                : List.of(codes, scale);
    }

    /** What its scale is computed from. */
    WindowUpdate.Slot slot() {
        return new WindowUpdate.Slot(format, rule);
    }

    @Override
    public boolean forwardReadsInput(int i) {
        return true;
    }

    /** Reads multiplier and window, and leaves them. */
    @Override
    public Op again() {
        return new QuantizeWindowed(x, format, rule, false);
    }
}
