package dev.octet.trainer.op.stored;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.merge.LowRank;
import dev.octet.trainer.kernel.Parallel;
import dev.octet.trainer.op.stored.StoredMatrix.Merged;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/** Rows of a merged matrix: the base's rows are decoded, the adapter is added, and the sum is rounded as the writer of the merged file rounds it. */
final class MergedTiles {
    /** Rows that one thread looks through for the largest magnitude at a time. */
    private static final long GRAIN = 16;

    private final Merged w;
    private final List<Summand> summands;
    private float whole = Float.NaN;

    /** Rows of F32 of a base. */
    interface Rows {
        void read(long from, long to, MemorySegment floats);
    }

    /** A base and the product that is added to it. */
    record Summand(Rows base, LowRank product, int rows, int cols) {
        void read(long from, long to, MemorySegment floats) {
            base.read(from, to, floats);
            float[] row = new float[cols];
            for (long r = from; r < to; r++) {
                long at = (r - from) * cols * Float.BYTES;
                MemorySegment.copy(floats, Tensor.F32_LE, at, row, 0, cols);
                product.apply(r, row);
                MemorySegment.copy(row, 0, floats, Tensor.F32_LE, at, cols);
            }
        }

        float amax(long from, long to) {
            float most = 0;
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment floats = arena.allocate((to - from) * cols * Float.BYTES, Float.BYTES);
                read(from, to, floats);
                for (long at = 0; at < floats.byteSize(); at += Float.BYTES) {
                    most = Math.max(most, Math.abs(floats.get(Tensor.F32_LE, at)));
                }
            }
            return most;
        }
    }

    /** @param summands the matrix itself, then those that share its scale */
    MergedTiles(Merged w, List<Summand> summands) {
        this.w = w;
        this.summands = new ArrayList<>(summands);
    }

    /** Finds the scale of the whole weight, where it has one. To be called before {@link #read}, by one thread. */
    void prepare(Parallel parallel) {
        if (!w.grid().hasWholeScale() || !Float.isNaN(whole)) {
            return;
        }
        float[] most = new float[1];
        for (Summand s : summands) {
            parallel.ranges(s.rows(), GRAIN, (from, to) -> {
                float amax = s.amax(from, to);
                synchronized (most) { // a maximum, so the order does not matter
                    most[0] = Math.max(most[0], amax);
                }
            });
        }
        whole = Float.isNaN(w.baseScale())
                ? w.grid().wholeScale(most[0])
                : w.grid().grown(w.baseScale(), most[0]);
    }

    /** Rows as a reader of the merged file sees them. */
    void read(long from, long to, DType type, MemorySegment target) {
        long block = w.grid().scheme().granularity().rowAlignment();
        long cols = w.cols();
        long first = from / block * block;
        long end = Math.min(w.rows(), (to + block - 1) / block * block);
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment sum = arena.allocate((end - first) * cols * Float.BYTES, 64);
            summands.getFirst().read(first, end, sum);
            requireFinite(sum);
            MemorySegment rounded = arena.allocate((end - first) * cols * Float.BYTES, 64);
            w.grid().round(end - first, cols, sum, whole, DType.F32, rounded);
            long skipped = (from - first) * cols;
            if (type == DType.F32) {
                MemorySegment.copy(rounded, skipped * Float.BYTES, target, 0, (to - from) * cols * Float.BYTES);
                return;
            }
            for (long i = 0; i < (to - from) * cols; i++) {
                Floats.set(type, target, i, rounded.get(Tensor.F32_LE, (skipped + i) * Float.BYTES));
            }
        }
    }

    /** Sums that are not finite have no codes; the largest float keeps the step going until the trainer sees its loss. */
    private static void requireFinite(MemorySegment sum) {
        for (long at = 0; at < sum.byteSize(); at += Float.BYTES) {
            float v = sum.get(Tensor.F32_LE, at);
            if (!Float.isFinite(v)) {
                sum.set(Tensor.F32_LE, at, v > 0 ? Float.MAX_VALUE : -Float.MAX_VALUE);
            }
        }
    }
}
