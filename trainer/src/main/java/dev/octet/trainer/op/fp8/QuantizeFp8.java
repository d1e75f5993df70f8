package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.scale.QuantScaleRule;
import dev.octet.trainer.kernel.ForwardOp;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;

/**
 * Codes of a tensor, taken as a matrix, with scales from its own values. For each block: amax of the F32 values, {@code quantScale} by
 * the rule, {@code code = cast(f32(x · quantScale))}, saturating.
 *
 * <p>Input: x. Outputs: the codes, one a byte, of the shape of x; the scales (dequantisation multipliers) F32 [grid]; with
 * {@code records} the largest amax of all blocks, F32 [1].
 *
 * @param x F32, BF16 or F16
 * @param form with a rule for its scales
 * @param records whether the amax is an output: what an export may use as the range of an activation
 */
public record QuantizeFp8(OperandType x, CodedMatrix form, boolean records) implements ForwardOp {
    /** @throws IllegalArgumentException when the form has no rule */
    public QuantizeFp8 {
        if (form.isDelayed()) {
            throw new IllegalArgumentException("the form says no rule for the scales");
        }
    }

    /** Its row in the table of operators. */
    public static final OpEntry<QuantizeFp8> ENTRY =
            OpEntry.of(QuantizeFp8.class, new QuantizeFp8Reference(), new QuantizeFp8Cpu(), new QuantizeFp8Cuda());

    /** How the scales follow from amaxes. */
    public QuantScaleRule rule() {
        return Objects.requireNonNull(form.rule());
    }

    /** Without the amax. */
    @Override
    public Op again() {
        return new QuantizeFp8(x, form, false);
    }

    @Override
    public String type() {
        return "QuantizeFp8";
    }

    @Override
    public List<OperandType> outputs() {
        List<OperandType> all = new ArrayList<>();
        all.add(x.as(form.format().dtype()));
        all.add(new OperandType(DType.F32, form.blocks().scaleShape()));
        if (records) {
            all.add(new OperandType(DType.F32, Shape.of(1)));
        }
        return all;
    }
}
