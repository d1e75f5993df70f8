package dev.octet.quant.scale;

import dev.octet.formats.tensor.DType;
import dev.octet.quant.number.Float8Format;

/**
 * torchao's scale function (torchao.float8): {@code max / max(amax, 1e-12)} in FP64, rounded to FP32. A NaN stays NaN, an infinite amax
 * gives 0.
 *
 * @param powerOfTwo whether the quotient becomes {@code 2^floor(log2 quotient)} with an FP32 logarithm. Just below a power of two that
 *     logarithm rounds to an integer, and the result lies <em>above</em> the quotient: kept, as the library has it
 */
public record TorchaoScale(boolean powerOfTwo) implements QuantScaleRule {
    private static final double SMALLEST_AMAX = 1e-12;

    @Override
    public float quantScale(float amax, Float8Format format, DType input) {
        double raised = amax < SMALLEST_AMAX ? SMALLEST_AMAX : amax; // NaN is not smaller
        float quotient = (float) (format.maxValue() / raised);
        return powerOfTwo ? (float) Math.pow(2, Math.floor(log2(quotient))) : quotient;
    }

    /** Correctly rounded to FP32; FP64's error is far below half a unit of FP32, and it gives integers for powers of two. */
    private static float log2(float x) {
        return (float) (Math.log(x) / Math.log(2));
    }

    @Override
    public boolean isPowerOfTwo() {
        return powerOfTwo;
    }

    @Override
    public boolean seesNaN() {
        return true;
    }
}
