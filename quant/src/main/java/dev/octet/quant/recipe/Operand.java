package dev.octet.quant.recipe;

import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.QuantType;

/**
 * How one operand of a GEMM is quantised.
 *
 * @param codes the number format
 * @param granularity which elements share a scale, for a weight in [out, in] order (channel axis -2 or 0 = output channel) and an
 *     activation in [..., in] order
 * @param scaling where the scale comes from
 */
public record Operand(QuantType codes, Granularity granularity, Scaling scaling) {
    /** Where a scale comes from. */
    public enum Scaling {
        /** From the tensor itself, once, when the model is converted: weights. */
        FROM_VALUES,
        /** From statistics of earlier runs, fixed in the file: static activation scales. */
        FROM_STATISTICS,
        /** From the values of each run, by the consumer: dynamic activation scales. */
        DYNAMIC,
    }

    /**
     * The float format of the codes.
     *
     * @throws IllegalStateException for integers
     */
    public Float8Format minifloat() {
        return codes.minifloat().orElseThrow(() -> new IllegalStateException(codes + " is no float format"));
    }
}
