package dev.octet.quant.scale;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Half;

/**
 * Transformer Engine's scale function of current scaling and of FP8 blocks: {@code max / amax} in FP32, correctly rounded. No amax
 * (zero, infinite, NaN) gives 1; a quotient beyond FP32 the largest number.
 *
 * @param epsilon what a smaller amax is raised to; 0 for none
 * @param powerOfTwo whether the quotient is cut to the power of two at or below it, by clearing its mantissa
 * @param perBlock whether this is the kernel of blocks, where the largest number is that of the input's type, not of FP32
 */
public record TransformerEngineScale(float epsilon, boolean powerOfTwo, boolean perBlock) implements QuantScaleRule {
    private static final int EXPONENT_AND_SIGN = 0xFF800000;

    /** Largest finite BF16. */
    private static final float BF16_MAX = 0x1.FEp127f;

    @Override
    public float quantScale(float amax, Float8Format format, DType input) {
        float raised = amax < epsilon ? epsilon : amax; // NaN is not smaller
        if (raised == 0 || !Float.isFinite(raised)) {
            return 1;
        }
        float quotient = format.maxValue() / raised;
        if (Float.isInfinite(quotient)) {
            quotient = perBlock ? largest(input) : Float.MAX_VALUE;
        }
        return powerOfTwo ? Float.intBitsToFloat(Float.floatToRawIntBits(quotient) & EXPONENT_AND_SIGN) : quotient;
    }

    @Override
    public boolean isPowerOfTwo() {
        return powerOfTwo;
    }

    private static float largest(DType input) {
        return switch (input) {
            case BF16 -> BF16_MAX;
            case F16 -> Half.MAX_VALUE;
            default -> Float.MAX_VALUE;
        };
    }
}
