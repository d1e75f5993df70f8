package dev.octet.quant;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.cast.ElementCast;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.ScaleGrid;
import dev.octet.quant.scale.ScaleRule.MseRule;
import dev.octet.quant.scale.StoredScale;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.concurrent.atomic.AtomicReferenceArray;
import org.jspecify.annotations.Nullable;

/**
 * Finds, for each scale of a tensor, the multiple of {@code amax / max} with the smallest squared error.
 *
 * <p>All scales try the same multiple at the same time, so each multiple costs one pass over the tensor. Errors are summed in double,
 * stripe by stripe and then over the stripes in order: the same sums on any number of threads.
 */
final class MseSearch {
    private final ElementCast cast;
    private final Tensor source;
    private final ScaleGrid grid;
    private final OperandSpec spec;
    private final MseRule rule;
    private final int threads;
    private final RunEncoder encoder;

    /** Sums of squared errors of scales {@code firstScale ..}, over one stripe. */
    private static final class Errors {
        final long firstScale;
        final double[] sums;

        Errors(long firstScale, double[] sums) {
            this.firstScale = firstScale;
            this.sums = sums;
        }
    }

    MseSearch(ElementCast cast, Tensor source, ScaleGrid grid, OperandSpec spec, MseRule rule, int threads) {
        this.cast = cast;
        this.source = source;
        this.grid = grid;
        this.spec = spec;
        this.rule = rule;
        this.threads = threads;
        this.encoder = new RunEncoder(cast, source, grid, spec.format(), Overflow.SATURATE);
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
            MemorySegment sums = scratch.allocate(grid.scaleCount() * Double.BYTES, 64);
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
            float scale = rule.scale(largest, spec.format());
            float candidate = largest == 0 ? scale : Math.max(scale * multiple, Float.MIN_VALUE);
            candidates.set(Tensor.F32_LE, at, StoredScale.round(candidate, spec.scaleType()));
        }
    }

    private void sumErrors(MemorySegment candidates, MemorySegment sums) {
        AtomicReferenceArray<@Nullable Errors> stripes =
                new AtomicReferenceArray<>(Math.toIntExact(Stripes.count(grid.elementCount())));
        Stripes.run(
                grid.elementCount(),
                threads,
                (from, to) -> stripes.set((int) (from / Stripes.STRIPE), stripeErrors(candidates, from, to)));
        sums.fill((byte) 0);
        for (int s = 0; s < stripes.length(); s++) {
            Errors errors = stripes.get(s);
            if (errors != null) {
                add(errors, sums);
            }
        }
    }

    private static void add(Errors errors, MemorySegment sums) {
        for (int i = 0; i < errors.sums.length; i++) {
            long at = (errors.firstScale + i) * Double.BYTES;
            sums.set(Tensor.F64_LE, at, sums.get(Tensor.F64_LE, at) + errors.sums[i]);
        }
    }

    private Errors stripeErrors(MemorySegment candidates, long from, long to) {
        ScaleGrid.Range range = grid.scalesOf(from, to);
        double[] sums = new double[Math.toIntExact(range.count())];
        try (Arena scratch = Arena.ofConfined()) {
            MemorySegment codes = scratch.allocate(to - from, 64);
            MemorySegment values = scratch.allocate((to - from) * Float.BYTES, 64);
            encoder.encode(candidates, from, to, codes);
            grid.forEachRun(from, to, new ErrorSum(candidates, codes, values, from, range.first(), sums));
        }
        return new Errors(range.first(), sums);
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

    /** Decodes the runs of a stripe and adds up their squared distances from the source. */
    private final class ErrorSum implements ScaleGrid.Visitor {
        private final MemorySegment scales;
        private final MemorySegment codes;
        private final MemorySegment values;
        private final long from;
        private final long firstScale;
        private final double[] sums;

        ErrorSum(
                MemorySegment scales,
                MemorySegment codes,
                MemorySegment values,
                long from,
                long firstScale,
                double[] sums) {
            this.scales = scales;
            this.codes = codes;
            this.values = values;
            this.from = from;
            this.firstScale = firstScale;
            this.sums = sums;
        }

        @Override
        public void shared(long first, long count, long scale) {
            MemorySegment decoded = Quantizer.floats(values, first - from, count);
            float factor = scales.get(Tensor.F32_LE, scale * Float.BYTES);
            cast.decode(spec.format(), codes.asSlice(first - from, count), factor, DType.F32, decoded);
            double sum = 0;
            for (long i = 0; i < count; i++) {
                sum += squaredError(first + i, decoded, i);
            }
            sums[(int) (scale - firstScale)] += sum;
        }

        @Override
        public void each(long first, long count, long scale) {
            MemorySegment decoded = Quantizer.floats(values, first - from, count);
            MemorySegment factors = Quantizer.floats(scales, scale, count);
            cast.decodeEach(spec.format(), codes.asSlice(first - from, count), factors, DType.F32, decoded);
            for (long i = 0; i < count; i++) {
                sums[(int) (scale - firstScale + i)] += squaredError(first + i, decoded, i);
            }
        }

        private double squaredError(long element, MemorySegment decoded, long index) {
            double error = (double) Floats.get(source.dtype(), source.bytes(), element)
                    - decoded.get(Tensor.F32_LE, index * Float.BYTES);
            return error * error;
        }
    }
}
