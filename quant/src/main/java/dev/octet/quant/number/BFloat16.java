package dev.octet.quant.number;

/**
 * BF16: the upper half of an IEEE binary32 (1 sign, 8 exponent, 7 mantissa bits, bias 127), as raw bits in a {@code short}.
 */
public final class BFloat16 {
    private BFloat16() {}

    /** The value of {@code bits}; exact, NaN payloads included. */
    public static float toFloat(short bits) {
        return Float.intBitsToFloat(bits << 16);
    }

    /**
     * The BF16 nearest to {@code x}, ties to even; magnitudes from 2^128 - 2^119 on become infinity. A NaN keeps its sign and the
     * upper bits of its payload and is made quiet, so that no payload can round to infinity.
     */
    public static short fromFloat(float x) {
        int bits = Float.floatToRawIntBits(x);
        if (Float.isNaN(x)) {
            return (short) ((bits >>> 16) | 0x40);
        }
        int lastKept = (bits >>> 16) & 1;
        return (short) ((bits + 0x7FFF + lastKept) >>> 16);
    }
}
