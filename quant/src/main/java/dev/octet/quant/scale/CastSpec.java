package dev.octet.quant.scale;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;

/**
 * The parameters that determine the bytes of a quantised tensor.
 *
 * @param format the codes
 * @param granularity which elements share a scale
 * @param rule derives a scale from the elements
 * @param overflow treatment of values beyond the largest number
 * @param scaleType how scales are stored: F32, BF16, F16 or F8_E8M0
 */
public record CastSpec(
        Float8Format format, Granularity granularity, ScaleRule rule, Overflow overflow, DType scaleType) {
    /** @throws IllegalArgumentException when scales cannot be stored as {@code scaleType} or values cannot be {@code format} */
    public CastSpec {
        if (!StoredScale.isScaleType(scaleType)) {
            throw new IllegalArgumentException("scales cannot be stored as " + scaleType);
        }
        if (format == Float8Format.E8M0) {
            throw new IllegalArgumentException("E8M0 has neither sign nor zero; it is a format for scales, not values");
        }
    }

    /** Saturating, scale {@code amax / max} stored as F32. */
    public CastSpec(Float8Format format, Granularity granularity) {
        this(format, granularity, new ScaleRule.AmaxRule(), Overflow.SATURATE, DType.F32);
    }

    /** The stored scale of a block whose largest magnitude is {@code amax} (finite), by the rule and rounded to its type. */
    public float storedScale(float amax) {
        return StoredScale.round(rule.scale(amax, format), scaleType);
    }
}
