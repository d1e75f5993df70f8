package dev.octet.quant.scale;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.Float8Format;

/**
 * MS-AMP's scale function (msamp/common/tensor/meta.py): {@code 2^floor(log2(max / amax))}, the quotient in FP32. So every multiplier is
 * a power of two, and changing one never rounds. No amax (zero, NaN) keeps the multiplier so far.
 *
 * <p>It scales FP8 and FP16 alike: {@code max} is 448 for E4M3, 57344 for E5M2, 65504 for F16.
 *
 * @param quirks whether the library's oddities stay: an infinite amax gives the reciprocal of the multiplier so far; a quotient beyond FP32
 *     gives an infinite multiplier, which makes NaN of zeros; the quotient is a product with a rounded reciprocal, and its logarithm is
 *     rounded to FP32, so near a power of two the floor may be the wrong one. Without them an infinite amax keeps the multiplier,
 *     multipliers end at 2^126 (their reciprocals are normal numbers), and the floor is exact
 */
public record MsampScale(boolean quirks) implements QuantScaleRule {
    /** As MS-AMP computes it, oddities included. */
    public static final MsampScale ORIGINAL = new MsampScale(true);

    /** Without the oddities. */
    public static final MsampScale MENDED = new MsampScale(false);

    private static final int LARGEST_EXPONENT = 126;

    /**
     * The multiplier that follows one.
     *
     * @param amax largest magnitude, at least 0, infinite or NaN
     * @param before the multiplier so far; 1 at first
     * @param max largest number of the type that is cast to
     */
    public float quantScale(float amax, float before, float max) {
        if (quirks) {
            float quotient = 1 / amax * max; // what torch makes of a number over a tensor
            float exponent = (float) Math.floor(log2(quotient));
            float magnitude = (float) Math.rint(Math.pow(2, Math.abs(exponent)));
            float quantScale = amax > 0 && Float.isFinite(amax) ? magnitude : before;
            return exponent < 0 ? 1 / quantScale : quantScale;
        }
        if (!(amax > 0) || Float.isInfinite(amax)) {
            return before;
        }
        float quotient = max / amax;
        return Float.isInfinite(quotient)
                ? PowersOfTwo.of(LARGEST_EXPONENT)
                : PowersOfTwo.of(Math.min(PowersOfTwo.exponent(quotient), LARGEST_EXPONENT));
    }

    /** {@inheritDoc} That of a tensor met for the first time: the multiplier before it is 1. */
    @Override
    public float quantScale(float amax, Float8Format format, DType input) {
        return quantScale(amax, 1, format.maxValue());
    }

    /** Correctly rounded to FP32, as in {@link TorchaoScale}; the library takes what its GPU gives, which may be the number next to it. */
    private static float log2(float x) {
        return (float) (Math.log(x) / Math.log(2));
    }

    @Override
    public boolean isPowerOfTwo() {
        return true;
    }

    @Override
    public boolean seesNaN() {
        return true;
    }
}
