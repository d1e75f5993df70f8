package dev.octet.trainer.observe;

import dev.octet.formats.tensor.Shape;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.trainer.op.fp8.CastFit;

/**
 * Casts to NVFP4 by Transformer Engine's arithmetic (common/cast/nvfp4/core_nvfp4.cuh at commit d0067d0): an E4M3 scale for each 16 elements
 * of a row, or for each 16 x 16 of a weight, below one FP32 for the tensor. Rows are not rotated, as in its row-wise copy; gradients are
 * rounded to nearest, where its recipe rounds stochastically.
 */
final class Nvfp4Cast {
    private static final int SIZE = 16;
    private static final float E2M1_MAX = Float8Format.E2M1.maxValue();
    private static final float LARGEST = Float8Format.E4M3FN.maxValue() * E2M1_MAX;

    private Nvfp4Cast() {}

    static CastFit fit(Sample sample, ObservedTensor tensor) {
        float[] x = sample.elements();
        Granularity granularity = tensor == ObservedTensor.WEIGHT
                ? new Granularity.PerBlock(SIZE, SIZE)
                : new Granularity.PerGroup(-1, SIZE);
        long[] block = granularity.blockShape(Shape.of(sample.rows(), sample.cols()));
        Blocks blocks = Blocks.ofMatrix(sample.rows(), sample.cols(), block[0], block[1]);
        float[] amax = new float[Math.toIntExact(blocks.scaleCount())];
        float whole = 0;
        for (int i = 0; i < x.length; i++) {
            int at = (int) blocks.scaleOf(i);
            amax[at] = Math.max(amax[at], Math.abs(x[i]));
            whole = Math.max(whole, Math.abs(x[i]));
        }
        float encode = encodeScale(whole);
        float decode = 1 / encode;
        float perUnit = encode * (1 / E2M1_MAX);
        long underflowed = 0;
        double squaredError = 0;
        double smallest = Double.POSITIVE_INFINITY;
        double largest = 0;
        float[] stored = new float[amax.length];
        for (int b = 0; b < amax.length; b++) {
            float scale = Math.min(amax[b] * perUnit, Float.MAX_VALUE);
            stored[b] = Float8Format.E4M3FN.decode(Float8Format.E4M3FN.encode(scale, Overflow.SATURATE));
            double effective = (double) stored[b] * decode;
            smallest = effective == 0 ? smallest : Math.min(smallest, effective);
            largest = Math.max(largest, effective);
        }
        for (int i = 0; i < x.length; i++) {
            float scale = stored[(int) blocks.scaleOf(i)];
            float multiplier = Math.min(1 / (scale * decode), Float.MAX_VALUE);
            float code = Float8Format.E2M1.decode(Float8Format.E2M1.encode(x[i] * multiplier, Overflow.SATURATE));
            underflowed += code == 0 && x[i] != 0 ? 1 : 0;
            double error = (double) (code * scale * (whole / LARGEST)) - x[i];
            squaredError += error * error;
        }
        return new CastFit(x.length, underflowed, 0, squaredError, smallest, largest);
    }

    private static float encodeScale(float amax) {
        float scale = Math.min(LARGEST / amax, Float.MAX_VALUE);
        return amax == 0 || scale == 0 ? 1 : scale;
    }
}
