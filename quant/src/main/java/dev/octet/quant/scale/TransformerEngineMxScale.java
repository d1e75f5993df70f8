package dev.octet.quant.scale;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.Float8Format;

/**
 * Transformer Engine's block exponent of MXFP8: the smallest power of two at or above {@code amax / max}, so that nothing saturates.
 * Not the exponent of OCP MX v1.0 section 6.3, which rounds down.
 */
public record TransformerEngineMxScale() implements QuantScaleRule {
    private static final int MANTISSA = 0x7FFFFF;
    private static final int MANTISSA_HALF = 0x400000;

    /** E8M0's exponents end here; 0xFF is NaN. */
    private static final int LARGEST = 0xFE;

    /**
     * The E8M0 code of the scale: zero gives 0 (2^-127), infinity 0xFE (2^127), NaN 0xFF.
     *
     * @param amax largest magnitude of the block, at least 0
     */
    public static int exponentCode(float amax, Float8Format format) {
        float v = amax * (1 / format.maxValue()); // the reciprocal is rounded first, as the kernel has it
        if (Float.isNaN(v)) {
            return Float8Format.E8M0.nanCode();
        }
        if (Float.isInfinite(v)) {
            return LARGEST;
        }
        int bits = Float.floatToRawIntBits(v);
        int exponent = bits >>> 23;
        int mantissa = bits & MANTISSA;
        boolean atMostSmallest = exponent == 0 && mantissa <= MANTISSA_HALF; // 2^-127 is a subnormal float
        return mantissa != 0 && exponent != LARGEST && !atMostSmallest ? exponent + 1 : exponent;
    }

    @Override
    public float quantScale(float amax, Float8Format format, DType input) {
        return 1 / Float8Format.E8M0.decode(exponentCode(amax, format)); // exact: 2^(127 - code), subnormal for 0xFE
    }

    @Override
    public boolean isPowerOfTwo() {
        return true;
    }
}
