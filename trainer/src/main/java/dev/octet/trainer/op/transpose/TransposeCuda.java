package dev.octet.trainer.op.transpose;

import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaStream.Grid;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import java.util.function.IntPredicate;
import java.util.stream.IntStream;
import java.util.stream.LongStream;

/**
 * Where the last axis stays, runs are copied, 16 bytes at a time where lengths and steps allow it; else tiles of 64 x 64 elements are turned in
 * shared memory, so that both sides are read and written in whole sectors.
 */
final class TransposeCuda implements CudaKernel<Transpose> {
    private static final CudaSource SOURCE = CudaSource.of(TransposeCuda.class, "transpose.cu");

    /** As in the source. */
    private static final int THREADS = 256;

    private static final int TILE = 64;

    /** Bytes of the widest unit that runs are copied in. */
    private static final int WIDEST = 16;

    @Override
    public void forward(Transpose op, Frame<CudaTensor> frame, CudaStream cuda) {
        permute(op, frame.input(0), frame.output(0), cuda);
    }

    @Override
    public void backward(Transpose op, Frame<CudaTensor> frame, CudaStream cuda) {
        permute(op.inverse(), frame.upstream(0), frame.gradient(0), cuda);
    }

    private static void permute(Transpose op, CudaTensor from, CudaTensor to, CudaStream cuda) {
        if (to.count() == 0) {
            return;
        }
        Permutation p = Permutation.of(op.x().shape(), op.order());
        int width = from.dtype().bits() / 8;
        if (p.step(p.rank() - 1) == 1) {
            copyRuns(p, from, to, width, cuda);
        } else {
            turnTiles(p, from, to, width, cuda);
        }
    }

    private static void copyRuns(Permutation p, CudaTensor from, CudaTensor to, int width, CudaStream cuda) {
        int last = p.rank() - 1;
        int unit = unit(p, width);
        int elements = unit / width;
        long run = p.dim(last) / elements;
        long rows = to.count() / p.dim(last);
        int group = Math.max(1, (int) Math.min(32, Long.highestOneBit(2 * run - 1)));
        cuda.launch(
                SOURCE,
                "transpose_runs_" + 8 * unit,
                Grid.over(rows * group, THREADS, 1),
                from,
                to,
                axes(p, axis -> axis != last, elements, cuda),
                last,
                rows,
                run,
                group);
    }

    /** Bytes of the largest unit that the run and all steps are multiples of. */
    private static int unit(Permutation p, int width) {
        int unit = WIDEST;
        int last = p.rank() - 1;
        for (int axis = 0; axis <= last; axis++) {
            long bytes = (axis == last ? p.dim(last) : p.step(axis)) * width;
            while (bytes % unit != 0) {
                unit /= 2;
            }
        }
        return unit;
    }

    private static void turnTiles(Permutation p, CudaTensor from, CudaTensor to, int width, CudaStream cuda) {
        int last = p.rank() - 1;
        int rows = p.contiguous();
        long tiles = Math.ceilDiv(p.dim(rows), (long) TILE) * Math.ceilDiv(p.dim(last), (long) TILE);
        cuda.launch(
                SOURCE,
                "transpose_tiles_" + 8 * width,
                Grid.of(to.count() / p.dim(rows) / p.dim(last) * tiles, THREADS),
                from,
                to,
                axes(p, axis -> axis != last && axis != rows, 1, cuda),
                last - 1,
                p.dim(rows),
                p.dim(last),
                p.step(last),
                p.stride(rows));
    }

    /** Length, step and stride of some axes, in units of {@code elements}. */
    private static long axes(Permutation p, IntPredicate taken, int elements, CudaStream cuda) {
        return cuda.table(IntStream.range(0, p.rank())
                .filter(taken)
                .mapToObj(axis -> new long[] {p.dim(axis), p.step(axis) / elements, p.stride(axis) / elements})
                .flatMapToLong(LongStream::of)
                .toArray());
    }
}
