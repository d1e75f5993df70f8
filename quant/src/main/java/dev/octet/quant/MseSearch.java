package dev.octet.quant;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.ScaleRuns;
import dev.octet.quant.cast.BlockCast;
import dev.octet.quant.cast.ElementCast;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.ScaleRule.MseRule;
import dev.octet.quant.scale.StoredScale;
import dev.octet.quant.work.Workers;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;

/**
 * Finds, for each scale of a tensor, the multiple of {@code amax / max} with the smallest squared error.
 *
 * <p>All scales try the same multiple at the same time, so each multiple costs one pass over the tensor. Errors are summed in double,
 * stripe by stripe and then over the stripes in order: the same sums on any number of threads.
 */
final class MseSearch {
    private final BlockCast cast;
    private final Tensor source;
    private final Blocks blocks;
    private final QuantType format;
    private final OperandSpec spec;
    private final MseRule rule;
    private final int threads;

    MseSearch(ElementCast cast, Tensor source, Blocks blocks, OperandSpec spec, MseRule rule, int threads) {
        this.cast = new BlockCast(cast, Overflow.SATURATE);
        this.source = source;
        this.blocks = blocks;
        this.format = spec.type();
        this.spec = spec;
        this.rule = rule;
        this.threads = threads;
    }

    /**
     * Searches.
     *
     * @param amax F32, largest magnitude for each scale, finite
     * @param best takes the scales, as they will be stored
     */
    void search(MemorySegment amax, MemorySegment best) {
        try (Arena scratch = Arena.ofShared()) {
            MemorySegment candidates = scratch.allocate(best.byteSize(), 64);
            MemorySegment sums = scratch.allocate(blocks.scaleCount() * Double.BYTES, 64);
            MemorySegment lowest = scratch.allocate(sums.byteSize(), 64);
            // From the largest multiple down, so that among equals the largest stays.
            for (int step = rule.steps() - 1; step >= 0; step--) {
                boolean first = step == rule.steps() - 1;
                fillCandidates(amax, rule.multiple(step), candidates);
                sumErrors(candidates, sums);
                keepBetter(first, candidates, sums, best, lowest);
            }
        }
    }

    private void fillCandidates(MemorySegment amax, float multiple, MemorySegment candidates) {
        for (long at = 0; at < amax.byteSize(); at += Float.BYTES) {
            float largest = amax.get(Tensor.F32_LE, at);
            float scale = spec.exactScale(largest);
            float candidate = largest == 0 ? scale : Math.max(scale * multiple, Float.MIN_VALUE);
            candidates.set(Tensor.F32_LE, at, StoredScale.round(candidate, spec.scaleType()));
        }
    }

    private void sumErrors(MemorySegment candidates, MemorySegment sums) {
        List<ScaleRuns> stripes = Quantizer.stripes(blocks);
        double[][] errors = new double[stripes.size()][];
        Workers.run(errors.length, threads, i -> errors[i] = errors(candidates, stripes.get(i)));
        sums.fill((byte) 0);
        for (int s = 0; s < errors.length; s++) {
            for (int i = 0; i < errors[s].length; i++) {
                long at = (stripes.get(s).firstScale() + i) * Double.BYTES;
                sums.set(Tensor.F64_LE, at, sums.get(Tensor.F64_LE, at) + errors[s][i]);
            }
        }
    }

    /** Sums of squared errors over one stripe, for each of its scales. */
    private double[] errors(MemorySegment candidates, ScaleRuns stripe) {
        double[] sums = new double[Math.toIntExact(stripe.scaleCount())];
        MemorySegment floats = Quantizer.elements(source, stripe);
        MemorySegment scales = Quantizer.floats(candidates, stripe);
        try (Arena scratch = Arena.ofConfined()) {
            MemorySegment codes = scratch.allocate(format.bytes(stripe.elements()), 64);
            MemorySegment values = scratch.allocate(stripe.elements() * Float.BYTES, 64);
            cast.encode(format, source.dtype(), floats, stripe, scales, codes);
            cast.decode(format, codes, stripe, scales, DType.F32, values);
            stripe.forEachGroup((first, count, scale) -> {
                long from = first - stripe.from();
                sums[(int) (scale - stripe.firstScale())] += squaredErrors(floats, values, from, from + count);
            });
        }
        return sums;
    }

    private double squaredErrors(MemorySegment floats, MemorySegment decoded, long from, long to) {
        double sum = 0;
        for (long i = from; i < to; i++) {
            double error = (double) Floats.get(source.dtype(), floats, i) - decoded.get(Tensor.F32_LE, i * Float.BYTES);
            sum += error * error;
        }
        return sum;
    }

    private static void keepBetter(
            boolean first, MemorySegment candidates, MemorySegment sums, MemorySegment best, MemorySegment lowest) {
        for (long i = 0; i < best.byteSize() / Float.BYTES; i++) {
            double error = sums.get(Tensor.F64_LE, i * Double.BYTES);
            if (first || error < lowest.get(Tensor.F64_LE, i * Double.BYTES)) {
                lowest.set(Tensor.F64_LE, i * Double.BYTES, error);
                best.set(Tensor.F32_LE, i * Float.BYTES, candidates.get(Tensor.F32_LE, i * Float.BYTES));
            }
        }
    }
}
