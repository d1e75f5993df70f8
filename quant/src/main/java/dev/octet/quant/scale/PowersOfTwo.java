package dev.octet.quant.scale;

/**
 * Positive floats as {@code significand * 2^exponent}. Through the bits of doubles, as which all floats are normal: {@link Math#scalb} would
 * take longer than all else that a scale takes, and MX has one for every 32 elements.
 */
final class PowersOfTwo {
    private static final long MANTISSA = 0xFFFFFFFFFFFFFL;
    private static final long ONE = 0x3FF0000000000000L;
    private static final int FLOAT_BIAS = 127;
    private static final int FLOAT_MANTISSA_BITS = 23;

    private PowersOfTwo() {}

    /** {@code floor(log2(positive))}. */
    static int exponent(float positive) {
        return Math.getExponent((double) positive);
    }

    /** In [1, 2). */
    static double significand(float positive) {
        return Double.longBitsToDouble((Double.doubleToRawLongBits(positive) & MANTISSA) | ONE);
    }

    /** {@code 2^exponent}, which may be infinite or subnormal, but not zero. */
    static float of(int exponent) {
        return exponent >= Float.MIN_EXPONENT && exponent <= Float.MAX_EXPONENT
                ? Float.intBitsToFloat((exponent + FLOAT_BIAS) << FLOAT_MANTISSA_BITS)
                : Math.max(Math.scalb(1f, exponent), Float.MIN_VALUE);
    }

    /** The power of two at or above a normal number; infinity above 2^127. */
    static float atOrAbove(float normal) {
        int bits = Float.floatToRawIntBits(normal);
        int below = bits & -(1 << FLOAT_MANTISSA_BITS);
        return Float.intBitsToFloat(below == bits ? below : below + (1 << FLOAT_MANTISSA_BITS));
    }
}
