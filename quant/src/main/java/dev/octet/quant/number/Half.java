package dev.octet.quant.number;

/**
 * F16: IEEE binary16 (1 sign, 5 exponent, 10 mantissa bits, bias 15, largest 65504), as raw bits in a {@code short}.
 */
public final class Half {
    /** The largest finite value. */
    public static final float MAX_VALUE = 65504f;

    /** The smallest positive normal value, 2^-14. */
    public static final float MIN_NORMAL = 0x1p-14f;

    private Half() {}

    /** The value of {@code bits}; exact, subnormals included. */
    public static float toFloat(short bits) {
        return Float.float16ToFloat(bits);
    }

    /** The F16 nearest to {@code x}, ties to even; magnitudes from 65520 on become infinity, NaN stays NaN. */
    public static short fromFloat(float x) {
        return Float.floatToFloat16(x);
    }
}
