package dev.octet.converter.compare;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.QuantType;

/**
 * The numbers a weight can hold: floats of a format or integers, times a multiplier for each element (1 when it is not quantised).
 *
 * <p><b>The unit in the last place</b> of a grid at magnitude {@code v} with multiplier {@code s} is the distance between the two numbers
 * of the grid around {@code v}: {@code s * 2^(k - mantissaBits)} with {@code k = floor(log2(v / s))} clamped to the format's exponents
 * (subnormals have the distance of the smallest normal numbers, numbers beyond the largest that of the top binade). Integers have the
 * distance {@code s} everywhere. A power of two belongs to the binade above it.
 *
 * @param mantissaBits stored bits of the significand
 * @param minExponent exponent of the smallest normal number
 * @param maxExponent exponent of the largest number
 * @param maxValue the largest number, without the multiplier
 * @param lowest the number furthest below zero, without the multiplier
 * @param integers whether the numbers are integers; the exponents are then meaningless
 * @param quantized whether elements have multipliers
 * @param slack how far beyond half a unit a single correct rounding can end, in units, because the multiplier is rounded after its use and
 *     FP32 arithmetic rounds
 */
record NumberGrid(
        int mantissaBits,
        int minExponent,
        int maxExponent,
        double maxValue,
        double lowest,
        boolean integers,
        boolean quantized,
        double slack) {
    /** Error of the FP32 division and multiplication of quantising and dequantising. */
    private static final double ARITHMETIC_SLACK = 0x1p-15;

    private static final float LITTLE_MORE = (float) (1 + ARITHMETIC_SLACK);

    /**
     * The grid of an unquantised tensor.
     *
     * @throws IllegalArgumentException when {@code type} is neither a float of 16 bits or more nor an integer
     */
    static NumberGrid plain(DType type) {
        return switch (type) {
            case BF16 -> floats(7, -126, 127);
            case F16 -> floats(10, -14, 15);
            // F64 is compared after rounding to F32
            case F32, F64 -> floats(23, -126, 127);
            case F8_E8M0 -> floats(0, -127, 127);
            case BOOL, U8, I8, I16, U16, I32, U32, I64, U64 ->
                new NumberGrid(0, 0, 0, Double.MAX_VALUE, -Double.MAX_VALUE, true, false, 0);
            case F4_E2M1,
                    F6_E2M3,
                    F6_E3M2,
                    U2,
                    I2,
                    U4,
                    I4,
                    F8_E5M2,
                    F8_E4M3FN,
                    F8_E4M3FNUZ,
                    F8_E5M2FNUZ,
                    C64,
                    C128,
                    STRING -> throw new IllegalArgumentException(type + " says nothing without a scale");
        };
    }

    private static NumberGrid floats(int mantissaBits, int minExponent, int maxExponent) {
        double max = Math.scalb(2 - Math.scalb(1.0, -mantissaBits), maxExponent);
        return new NumberGrid(mantissaBits, minExponent, maxExponent, max, -max, false, false, ARITHMETIC_SLACK);
    }

    /**
     * The grid of quantised codes.
     *
     * @param scaleNumber number type of the stored scales
     */
    static NumberGrid quantized(QuantType codes, DType scaleNumber) {
        if (codes.isInteger()) {
            double max = codes.hasZeroPoint() ? Double.MAX_VALUE : codes.maxValue();
            double lowest = codes.hasZeroPoint() ? -Double.MAX_VALUE : codes.lowest();
            return new NumberGrid(0, 0, 0, max, lowest, true, true, slack(codes.maxValue(), scaleNumber));
        }
        Float8Format format = codes.minifloat().orElseThrow();
        return new NumberGrid(
                format.mantissaBits(),
                1 - format.bias(),
                format.maxExponent(),
                format.maxValue(),
                -format.maxValue(),
                false,
                true,
                // the largest significand is just below 2^(mantissaBits + 1) units
                slack(Math.scalb(1.0, format.mantissaBits() + 1), scaleNumber));
    }

    /** The largest magnitude on {@code x}'s side of zero, without the multiplier. */
    double most(float x) {
        return x < 0 ? -lowest : maxValue;
    }

    /** Whether these are integers with a zero point, whose range is unknown. */
    boolean asymmetric() {
        return quantized && integers && maxValue == Double.MAX_VALUE;
    }

    private static double slack(double largestInUnits, DType scaleNumber) {
        double rounding = switch (scaleNumber) {
            case BF16 -> 0x1p-9;
            case F16 -> 0x1p-11;
            default -> 0;
        };
        return largestInUnits * rounding + ARITHMETIC_SLACK;
    }

    /** The unit in the last place at {@code magnitude} (finite) with this multiplier; 0 for multiplier 0. */
    double ulp(float magnitude, float multiplier) {
        if (integers) {
            return multiplier;
        }
        int exponent = Math.getExponent(quantized ? magnitude / multiplier : magnitude);
        int clamped = Math.max(minExponent, Math.min(exponent, maxExponent)) - mantissaBits;
        return multiplier * Double.longBitsToDouble((long) (clamped + 1023) << 52);
    }

    /**
     * The unit for the distance of two finite numbers: the unit at the smaller magnitude, but at least half the unit at the larger.
     * Rounding to this grid moves a number by at most half such a unit in either direction, because it leaves its binade at most for the
     * border of the next; numbers far apart are not measured in the tiny units around zero.
     */
    double ulpBetween(float x, float y, float multiplier) {
        if (integers) {
            return multiplier;
        }
        // the smaller magnitude has the smaller exponent, also after division; multiplying by a power of two is exact
        // products of tiny scales lose bits in F32, so that a power of two may come back as a little less
        int exponent = quantized
                ? exponentBetween(Math.abs(x) / multiplier * LITTLE_MORE, Math.abs(y) / multiplier * LITTLE_MORE)
                : exponentBetween(x, y);
        return multiplier * Double.longBitsToDouble((long) (exponent + 1023) << 52);
    }

    private int exponentBetween(float x, float y) {
        int ofX = Math.getExponent(x);
        int ofY = Math.getExponent(y);
        int lower = Math.max(minExponent, Math.min(Math.min(ofX, ofY), maxExponent));
        int upper = Math.max(minExponent, Math.min(Math.max(ofX, ofY), maxExponent));
        return Math.max(lower, upper - 1) - mantissaBits;
    }

    /** 1 / {@link #ulpBetween}, exact, for floats without multipliers. */
    double unitsIn1(float x, float y) {
        return Double.longBitsToDouble((long) (1023 - exponentBetween(x, y)) << 52);
    }

    /** The number of this grid nearest to {@code x}, ties to even, saturating. Not defined for asymmetric integers. */
    float round(float x, float multiplier) {
        double v = quantized ? x / multiplier : x;
        if (Double.isNaN(v)) {
            return Float.NaN;
        }
        double unit = integers ? 1 : ulp((float) Math.abs(v), 1);
        double rounded = Math.clamp(Math.rint(v / unit) * unit, lowest, maxValue);
        return (float) rounded * multiplier;
    }
}
