package dev.octet.quant.recipe;

import dev.octet.quant.number.Minifloat;
import dev.octet.quant.scale.Granularity;

/**
 * How one operand of a GEMM is quantised.
 *
 * @param granularity which elements share a scale, for a weight in [out, in] order (channel axis 0 = output channel) and an
 *     activation in [..., in] order
 * @param scaling where the scale comes from
 */
public record Operand(Minifloat format, Granularity granularity, Scaling scaling) {
    /** Where a scale comes from. */
    public enum Scaling {
        /** From the tensor itself, once, when the model is converted: weights. */
        FROM_VALUES,
        /** From statistics of earlier runs, fixed in the file: static activation scales. */
        FROM_STATISTICS,
    }
}
