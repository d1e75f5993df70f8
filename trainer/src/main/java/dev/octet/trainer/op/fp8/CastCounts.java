package dev.octet.trainer.op.fp8;

import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.ScaleRuns;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.scale.QuantScaleRule;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Parallel;
import java.util.Objects;

/**
 * What a tensor loses when it is cast to codes, found again from the tensor and its scales by the kernels' arithmetic.
 *
 * @param format of the codes
 * @param elements cast; NaN among them counts as neither of the following
 * @param clipped elements that lie, scaled and rounded, beyond the format's largest number, so that they become it
 * @param underflowed elements other than 0 whose code is 0
 * @param amax largest magnitude, NaN left out
 * @param scale dequantisation multiplier; the largest one where blocks have their own
 */
public record CastCounts(Float8Format format, long elements, long clipped, long underflowed, float amax, float scale) {
    /**
     * With scales from the tensor's own values, as {@link QuantizeFp8} finds them.
     *
     * @param form with a rule for its scales
     */
    public static CastCounts current(CpuTensor x, CodedMatrix form) {
        QuantScaleRule rule = Objects.requireNonNull(form.rule());
        return count(x, form, new MatrixCodes(form.blocks(), Parallel.ALONE).quantScales(x, form.format(), rule));
    }

    /** With one multiplier that earlier steps left. */
    public static CastCounts delayed(CpuTensor x, Float8Format format, float quantScale) {
        return count(x, new CodedMatrix(format, QuantizeFp8DelayedCpu.flat(x), null), new float[] {quantScale});
    }

    private static CastCounts count(CpuTensor x, CodedMatrix form, float[] quantScales) {
        Blocks blocks = form.blocks();
        Counter counter = new Counter(form.format());
        int cols = Math.toIntExact(blocks.cols());
        float[] row = new float[cols];
        for (ScaleRuns runs : blocks.runs().cut(Math.max(1, cols))) {
            x.read(runs.from(), row, 0, cols);
            runs.forEachGroup((first, count, scale) -> {
                int from = (int) (first - runs.from());
                counter.add(row, from, from + (int) count, quantScales[(int) scale]);
            });
        }
        float scale = 0;
        for (float quantScale : quantScales) {
            float s = QuantScaleRule.scale(quantScale);
            scale = s > scale || Float.isNaN(s) ? s : scale;
        }
        return new CastCounts(form.format(), x.count(), counter.clipped, counter.underflowed, counter.amax, scale);
    }

    /** Both casts together: of another micro-batch, or for another product. The scale is the later one's. */
    public CastCounts and(CastCounts later) {
        return new CastCounts(
                later.format,
                elements + later.elements,
                clipped + later.clipped,
                underflowed + later.underflowed,
                Math.max(amax, later.amax),
                later.scale);
    }

    /** Compares scaled magnitudes with the two at which rounding turns. */
    private static final class Counter {
        /** The least magnitude that is rounded to beyond the largest number. */
        private final float clippedFrom;

        /** The largest magnitude that is rounded to 0. */
        private final float zeroUpTo;

        private long clipped;
        private long underflowed;
        private float amax;

        Counter(Float8Format format) {
            // half a step away; which way this very number goes depends on which neighbour is even
            float max = format.maxValue();
            float beyond = max + (max - format.decode(format.maxCode() - 1)) / 2;
            clippedFrom =
                    format.encode(beyond, Overflow.NON_SATURATING) == format.maxCode() ? Math.nextUp(beyond) : beyond;
            float below = format.minPositive() / 2;
            zeroUpTo = format.encode(below, Overflow.SATURATE) == 0 ? below : Math.nextDown(below);
        }

        void add(float[] x, int from, int to, float quantScale) {
            int high = 0;
            int low = 0;
            float largest = amax;
            for (int i = from; i < to; i++) {
                float magnitude = Math.abs(x[i]);
                float scaled = Math.abs(x[i] * quantScale);
                high += scaled >= clippedFrom ? 1 : 0;
                low += scaled <= zeroUpTo && magnitude > 0 ? 1 : 0;
                largest = magnitude > largest ? magnitude : largest;
            }
            clipped += high;
            underflowed += low;
            amax = largest;
        }
    }
}
