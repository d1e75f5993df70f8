package dev.octet.trainer.op.transpose;

import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Parallel;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/**
 * A permutation of axes with everything trivial removed: axes of length 1 dropped, axes that stay neighbours made one.
 *
 * <p>{@code dims} are the lengths of the result's axes; {@code steps} the elements of the source from one position of them to the next.
 */
final class Permutation {
    /** Side of a block: 32 rows of 32 elements of 4 bytes are 64 lines of cache on either side. */
    private static final int BLOCK = 32;

    private final long[] dims;
    private final long[] steps;

    private Permutation(long[] dims, long[] steps) {
        this.dims = dims;
        this.steps = steps;
    }

    static Permutation of(Shape from, List<Integer> order) {
        long[] strides = new long[from.rank()];
        long stride = 1;
        for (int axis = from.rank() - 1; axis >= 0; axis--) {
            strides[axis] = stride;
            stride *= from.dim(axis);
        }
        List<long[]> axes = new ArrayList<>(); // length, step
        for (int axis : order) {
            long dim = from.dim(axis);
            if (dim == 1) {
                continue;
            }
            long[] last = axes.isEmpty() ? null : axes.getLast();
            if (last != null && last[1] == dim * strides[axis]) {
                last[0] *= dim;
                last[1] = strides[axis];
            } else {
                axes.add(new long[] {dim, strides[axis]});
            }
        }
        if (axes.isEmpty()) {
            axes.add(new long[] {1, 1});
        }
        return new Permutation(
                axes.stream().mapToLong(a -> a[0]).toArray(),
                axes.stream().mapToLong(a -> a[1]).toArray());
    }

    void run(CpuTensor from, CpuTensor to, Parallel parallel) {
        if (to.count() == 0) {
            return;
        }
        if (steps[dims.length - 1] == 1) {
            copyRuns(from, to, parallel);
        } else {
            turnBlocks(from, to, parallel);
        }
    }

    private void copyRuns(CpuTensor from, CpuTensor to, Parallel parallel) {
        int width = from.dtype().bits() / 8;
        long run = dims[dims.length - 1];
        long bytes = run * width;
        long rows = to.count() / run;
        parallel.ranges(rows, Math.max(1, CpuContext.GRAIN / run), (first, end) -> {
            for (long row = first; row < end; row++) {
                MemorySegment.copy(
                        from.bytes(), source(row, dims.length - 1, -1) * width, to.bytes(), row * bytes, bytes);
            }
        });
    }

    /** The source's element at which position {@code i} of the axes before {@code end}, without axis {@code without}, begins. */
    private long source(long i, int end, int without) {
        long at = 0;
        long rest = i;
        for (int d = end - 1; d >= 0; d--) {
            if (d != without) {
                at += rest % dims[d] * steps[d];
                rest /= dims[d];
            }
        }
        return at;
    }

    /** The same in the result. */
    private long target(long i, int end, int without) {
        long at = 0;
        long rest = i;
        long stride = 1;
        for (int d = dims.length - 1; d >= 0; d--) {
            if (d < end && d != without) {
                at += rest % dims[d] * stride;
                rest /= dims[d];
            }
            stride *= dims[d];
        }
        return at;
    }

    private void turnBlocks(CpuTensor from, CpuTensor to, Parallel parallel) {
        int last = dims.length - 1;
        int contiguous = 0; // the result's axis along which the source is contiguous
        while (steps[contiguous] != 1) {
            contiguous++;
        }
        int unit = contiguous;
        long toStride = 1;
        for (int d = unit + 1; d <= last; d++) {
            toStride *= dims[d];
        }
        long rowStride = toStride;
        long strips = Math.ceilDiv(dims[unit], (long) BLOCK);
        long others = to.count() / dims[unit] / dims[last];
        long grain = Math.max(1, CpuContext.GRAIN / (BLOCK * dims[last]));
        parallel.ranges(others * strips, grain, (first, end) -> {
            for (long s = first; s < end; s++) {
                long other = s / strips;
                long row = s % strips * BLOCK;
                int rows = (int) Math.min(BLOCK, dims[unit] - row);
                long in = source(other, last, unit) + row;
                long out = target(other, last, unit) + row * rowStride;
                for (long column = 0; column < dims[last]; column += BLOCK) {
                    int columns = (int) Math.min(BLOCK, dims[last] - column);
                    turn(from, in + column * steps[last], steps[last], to, out + column, rowStride, rows, columns);
                }
            }
        });
    }

    /** {@code to[out + r·toStride + c] = from[in + r + c·fromStride]}. */
    private static void turn(
            CpuTensor from, long in, long fromStride, CpuTensor to, long out, long toStride, int rows, int columns) {
        MemorySegment source = from.bytes();
        MemorySegment target = to.bytes();
        int width = from.dtype().bits() / 8;
        switch (width) {
            case 4 -> turn4(source, in * 4, fromStride * 4, target, out * 4, toStride * 4, rows, columns);
            case 2 -> turn2(source, in * 2, fromStride * 2, target, out * 2, toStride * 2, rows, columns);
            default -> {
                for (int r = 0; r < rows; r++) {
                    for (int c = 0; c < columns; c++) {
                        long at = (in + r + c * fromStride) * width;
                        MemorySegment.copy(source, at, target, (out + r * toStride + c) * width, width);
                    }
                }
            }
        }
    }

    private static void turn4(
            MemorySegment source,
            long in,
            long fromStride,
            MemorySegment target,
            long out,
            long toStride,
            int rows,
            int columns) {
        for (int r = 0; r < rows; r++) {
            for (int c = 0; c < columns; c++) {
                target.set(
                        Tensor.I32_LE,
                        out + r * toStride + c * 4L,
                        source.get(Tensor.I32_LE, in + r * 4L + c * fromStride));
            }
        }
    }

    private static void turn2(
            MemorySegment source,
            long in,
            long fromStride,
            MemorySegment target,
            long out,
            long toStride,
            int rows,
            int columns) {
        for (int r = 0; r < rows; r++) {
            for (int c = 0; c < columns; c++) {
                target.set(
                        Tensor.I16_LE,
                        out + r * toStride + c * 2L,
                        source.get(Tensor.I16_LE, in + r * 2L + c * fromStride));
            }
        }
    }
}
