package dev.octet.quant.measure;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.number.Float8Format;
import java.lang.foreign.MemorySegment;

/**
 * How values with a given scale use a format. Immutable; measure in pieces and add them with {@link #plus}.
 *
 * @param count number of values
 * @param clipped values that round beyond the largest finite number, including infinities but not NaN
 * @param flushed nonzero values that become zero
 * @param subnormal values that become a subnormal number, with fewer significant bits; without zeros
 */
public record Saturation(long count, long clipped, long flushed, long subnormal) {
    /** No values yet. */
    public static final Saturation NONE = new Saturation(0, 0, 0, 0);

    /**
     * Measures a run of F32, BF16 or F16 values that share a scale.
     *
     * @param scale dequantisation multiplier, positive and finite; values are divided by it in FP32, as casts do
     * @param format any signed format
     * @throws IllegalArgumentException when the type, the scale or the format is another
     */
    public static Saturation of(DType type, MemorySegment source, float scale, Float8Format format) {
        if (!(scale > 0 && scale < Float.POSITIVE_INFINITY)) {
            throw new IllegalArgumentException("scale " + scale + " is not positive and finite");
        }
        if (!format.isSigned()) {
            throw new IllegalArgumentException(format + " is no format for values");
        }
        Borders borders = Borders.of(format);
        long count = source.byteSize() * 8 / type.bits();
        long clipped = 0;
        long flushed = 0;
        long subnormal = 0;
        for (long i = 0; i < count; i++) {
            float x = Floats.get(type, source, i);
            float magnitude = Math.abs(x / scale);
            if (magnitude > borders.clipAbove) {
                clipped++;
            } else if (magnitude <= borders.zeroUpTo) {
                flushed += x != 0 ? 1 : 0;
            } else if (magnitude < borders.normalFrom) {
                subnormal++;
            }
        }
        return new Saturation(count, clipped, flushed, subnormal);
    }

    /** The counts over both sets of values. */
    public Saturation plus(Saturation other) {
        return new Saturation(
                count + other.count, clipped + other.clipped, flushed + other.flushed, subnormal + other.subnormal);
    }

    /** Share of clipped values, 0 .. 1; 0 without values. */
    public double clippedShare() {
        return share(clipped);
    }

    /** Share of values flushed to zero, 0 .. 1; 0 without values. */
    public double flushedShare() {
        return share(flushed);
    }

    /** Share of values that become subnormal, 0 .. 1; 0 without values. */
    public double subnormalShare() {
        return share(subnormal);
    }

    private double share(long part) {
        return count == 0 ? 0 : (double) part / count;
    }

    /**
     * Magnitudes at which the class of a value changes under rounding to nearest even. The midpoint below the smallest number rounds to
     * zero (even), the midpoint below the first normal number rounds up to it (its code, 2^M, is even), and the midpoint above the largest
     * number rounds down to it if the largest code is even.
     */
    private record Borders(float zeroUpTo, float normalFrom, float clipAbove) {
        static Borders of(Float8Format format) {
            float step = format.maxValue() - format.decode(format.maxCode() - 1);
            float middle = format.maxValue() + step / 2;
            return new Borders(
                    format.minPositive() / 2,
                    format.minNormal() - format.minPositive() / 2,
                    format.maxCode() % 2 == 0 ? middle : Math.nextDown(middle));
        }
    }
}
