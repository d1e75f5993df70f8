package dev.octet.quant.scale;

import dev.octet.quant.number.Float8Format;

/**
 * How the scale (dequantisation multiplier) of a block follows from its largest magnitude, {@code amax}.
 *
 * <p>For every rule a block of zeros has the scale 1: any scale gives zeros back, and 1 is exact in every stored type.
 * (compressed-tensors writes the machine epsilon there, Transformer Engine 1, its MX kernels 2^-127.) A NaN or an infinity in a
 * block has no scale; the quantiser refuses such tensors.
 *
 * <p>The results are unrounded; {@link StoredScale#round} brings them to their stored type.
 */
public sealed interface ScaleRule {
    /** {@code amax / max} in FP32: the largest magnitude lands on the largest number of the format. The usual rule. */
    record AmaxRule() implements ScaleRule {}

    /** {@link AmaxRule} rounded to a power of two, with which dividing and multiplying are exact. */
    record PowerOfTwoRule(Rounding rounding) implements ScaleRule {}

    /** The shared exponent of an MX block as {@code exponent} has it; see OCP MX v1.0 section 6.3. */
    record MxRule(Exponent exponent) implements ScaleRule {}

    /**
     * Of {@code steps} multiples of {@code amax / max}, evenly spaced from {@code lowest} to {@code highest} (both included), the one
     * with the smallest sum of squared errors over the block, as quantised with the stored scale, saturation included; the
     * largest of equals. With scales below {@code amax / max} a few large values saturate and the many small ones are rounded finer.
     *
     * <p>{@link #scale} gives the multiple 1; finding the best one takes the values.
     */
    record MseRule(float lowest, float highest, int steps) implements ScaleRule {
        public MseRule {
            if (!(lowest > 0 && lowest <= highest && highest < Float.POSITIVE_INFINITY) || steps < 1) {
                throw new IllegalArgumentException(
                        steps + " steps from " + lowest + " to " + highest + " are not search range");
            }
        }

        /**
         * 21 multiples from 0.5 to 1.5. A wider range would repeat itself: doubling the scale only moves the grid by one exponent.
         */
        public MseRule() {
            this(0.5f, 1.5f, 21);
        }

        /** Multiple {@code step}, in {@code 0 .. steps - 1}, of the scale of {@link AmaxRule}. */
        public float multiple(int step) {
            return steps == 1 ? highest : lowest + (highest - lowest) * step / (steps - 1);
        }
    }

    /** Where {@link PowerOfTwoRule} rounds to. */
    enum Rounding {
        /** The next power of two at or above, so nothing saturates; what Transformer Engine's power-of-two scales come to. */
        UP,
        /** The next power of two at or below: values up to twice the largest number saturate. */
        DOWN,
        /** The power of two nearest in ratio: up from a significand of sqrt(2) on. */
        NEAREST
    }

    /** Which power of two {@link MxRule} takes. */
    enum Exponent {
        /**
         * {@code ceil(log2(amax / max))}: the smallest that lets nothing saturate. NVIDIA ModelOpt and Transformer Engine.
         */
        CEIL,
        /**
         * {@code floor(log2(amax)) - emax}, one more when the significand of amax is at least 1.75. compressed-tensors; differs from
         * {@link #CEIL} for E4M3FN only at exactly 1.75 * 2^k.
         */
        COMPRESSED_TENSORS,
        /** {@code floor(log2(amax)) - emax}: OCP MX v1.0 section 6.3. Values above the largest number saturate. */
        OCP_FLOOR
    }

    /**
     * The scale for a block.
     *
     * @param amax largest magnitude of the block, finite and at least 0
     * @return positive; may be subnormal or, for huge {@code amax} in a small format, infinite: see {@link StoredScale#round}
     * @throws IllegalArgumentException when {@code amax} is negative, infinite or NaN
     */
    default float scale(float amax, Float8Format format) {
        if (!(amax >= 0 && amax < Float.POSITIVE_INFINITY)) {
            throw new IllegalArgumentException("amax " + amax + " has no scale");
        }
        if (amax == 0) {
            return 1;
        }
        return switch (this) {
            case AmaxRule() -> amaxScale(amax, format);
            case MseRule _ -> amaxScale(amax, format);
            case PowerOfTwoRule(Rounding rounding) -> powerOfTwo(amaxScale(amax, format), rounding);
            case MxRule(Exponent exponent) -> PowersOfTwo.of(exponentOf(amax, format, exponent));
        };
    }

    private static float amaxScale(float amax, Float8Format format) {
        // An amax so small that the quotient is zero still has a positive scale.
        return Math.max(amax / format.maxValue(), Float.MIN_VALUE);
    }

    private static float powerOfTwo(float scale, Rounding rounding) {
        double significand = PowersOfTwo.significand(scale);
        boolean up = switch (rounding) {
            case UP -> significand > 1;
            case DOWN -> false;
            case NEAREST -> significand >= Math.sqrt(2);
        };
        int exponent = PowersOfTwo.exponent(scale);
        return PowersOfTwo.of(up ? exponent + 1 : exponent);
    }

    private static int exponentOf(float amax, Float8Format format, Exponent rule) {
        int floor = PowersOfTwo.exponent(amax) - format.maxExponent();
        double significand = PowersOfTwo.significand(amax);
        return switch (rule) {
            case OCP_FLOOR -> floor;
            case COMPRESSED_TENSORS -> floor + (significand >= 1.75 ? 1 : 0);
            case CEIL -> floor + (significand > PowersOfTwo.significand(format.maxValue()) ? 1 : 0);
        };
    }
}
