package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.Float8Format;
import dev.octet.trainer.kernel.ForwardOp;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.state.StateForm;
import java.util.List;

/**
 * Adds to a gradient that is kept in FP8 with a power of two: decoded, added, rounded to the type of the product's result, and cast with a scale from the sum itself, as in
 * MS-AMP's FP8Linear (msamp/nn/functional.py).
 *
 * <p>An element of the sum that is not finite becomes NaN: FP8's saturating cast would hide an overflow. Whoever reads the gradient sees it, where MS-AMP looks at the amax
 * that its scale was made of.
 *
 * <p>Inputs: the gradient's codes and scale, what is added. Outputs: codes and scale, which may be the inputs.
 *
 * @param form of the gradient
 * @param x type of what is added, F32
 * @param rounded what sums are rounded to: F32, BF16 or F16
 */
public record AccumulateCodes(StateForm.PowerOfTwo form, OperandType x, DType rounded) implements ForwardOp {
    /** Its row in the table of operators. */
    public static final OpEntry<AccumulateCodes> ENTRY = OpEntry.of(
            AccumulateCodes.class, new AccumulateCodesReference(), new AccumulateCodesCpu(), new AccumulateCodesCuda());

    public AccumulateCodes {
        if (x.dtype() != DType.F32) {
            throw new IllegalArgumentException("sums of F32, not of " + x);
        }
        if (form.zero() != StateForm.OfZeros.AS_BEFORE) {
            throw new IllegalArgumentException("a gradient of zeros keeps its scale");
        }
    }

    @Override
    public String type() {
        return "AccumulateCodes";
    }

    @Override
    public List<OperandType> outputs() {
        return form.parts(x).stream().map(StateForm.Part::type).toList();
    }

    /** The format of the codes. */
    Float8Format format() {
        return Float8Format.of(form.type()).orElseThrow();
    }

    /** The multiplier of sums with this amax, NaN counted as infinite. */
    float quantScale(float amax, float before) {
        return form.rule().quantScale(Float.isNaN(amax) ? Float.POSITIVE_INFINITY : amax, before, format().maxValue());
    }
}
