package dev.octet.trainer.op.copy;

import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import java.util.stream.LongStream;

/**
 * A copy of elements along axes: position p of the box is element {@code fromStart + Σ p·fromSteps} of the one tensor and {@code toStart + Σ
 * p·toSteps} of the other. Where neighbours stay neighbours they are copied in the widest units, up to 16 bytes, that lie whole on both sides.
 */
public final class CudaCopy {
    private static final CudaSource SOURCE = CudaSource.of(CudaCopy.class, "copy.cu");
    private static final int WIDEST = 16;

    private final long[] lengths;
    private final long fromStart;
    private final long[] fromSteps;
    private final long toStart;
    private final long[] toSteps;

    /**
     * A copy whose numbers count elements.
     *
     * @param lengths of the axes, outermost first; at least one
     */
    public CudaCopy(long[] lengths, long fromStart, long[] fromSteps, long toStart, long[] toSteps) {
        this.lengths = lengths.clone();
        this.fromStart = fromStart;
        this.fromSteps = fromSteps.clone();
        this.toStart = toStart;
        this.toSteps = toSteps.clone();
    }

    /** Writes the copy of elements of one type. */
    public void write(CudaTensor from, CudaTensor to, CudaStream cuda) {
        long width = from.dtype().bits() / 8;
        long n = LongStream.of(lengths).reduce(1, (a, b) -> a * b);
        int last = lengths.length - 1;
        boolean neighbours = lengths[last] == 1 || (fromSteps[last] == 1 && toSteps[last] == 1);
        if (n == 0) {
            return;
        }
        if (neighbours && lengths.length == 1) {
            cuda.copy(from.address() + fromStart * width, to.address() + toStart * width, n * width);
            return;
        }
        long unit = neighbours ? unit(width) : width;
        long[] axes = new long[3 * lengths.length];
        for (int d = 0; d <= last; d++) {
            boolean inner = d == last && neighbours;
            axes[d] = inner ? lengths[d] * width / unit : lengths[d];
            axes[lengths.length + d] = inner ? 1 : fromSteps[d] * width / unit;
            axes[2 * lengths.length + d] = inner ? 1 : toSteps[d] * width / unit;
        }
        cuda.launch(
                SOURCE,
                "box_copy_" + unit,
                Grid.over(n * width / unit, 256, 2),
                from.address() + fromStart * width,
                to.address() + toStart * width,
                n * width / unit,
                lengths.length,
                cuda.table(axes));
    }

    /** Bytes that all runs, starts and steps are multiples of. */
    private long unit(long width) {
        int last = lengths.length - 1;
        long bits = WIDEST | lengths[last] * width | fromStart * width | toStart * width;
        for (int d = 0; d < last; d++) {
            bits |= fromSteps[d] * width | toSteps[d] * width;
        }
        return Long.lowestOneBit(bits);
    }

    /** Writes that all elements of a tensor are the lowest bytes of {@code bits}. */
    static void fill(CudaTensor to, long bits, CudaStream cuda) {
        if (bits == 0) {
            cuda.zero(to.address(), to.byteSize());
        } else {
            cuda.launch(
                    SOURCE, "box_fill_" + to.dtype().bits() / 8, Grid.over(to.count(), 256, 4), to, to.count(), bits);
        }
    }
}
