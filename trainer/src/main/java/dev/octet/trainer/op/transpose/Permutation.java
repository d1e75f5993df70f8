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
    /** Side of a block: its rows are whole lines of cache, and a block of 4-byte elements fills half of the first cache. */
    private static final int BLOCK = 64;

    /** Elements from one row of a block to the next: not a power of two, or a column would fall on few lines of the cache. */
    private static final int PITCH = BLOCK + 1;

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

    /** How many axes the result has. */
    int rank() {
        return dims.length;
    }

    /** Length of an axis of the result. */
    long dim(int axis) {
        return dims[axis];
    }

    /** Elements of the source from one position of an axis of the result to the next. */
    long step(int axis) {
        return steps[axis];
    }

    /** Elements of the result from one position of an axis to the next. */
    long stride(int axis) {
        long stride = 1;
        for (int d = axis + 1; d < dims.length; d++) {
            stride *= dims[d];
        }
        return stride;
    }

    /** The result's axis along which the source is contiguous. */
    int contiguous() {
        int axis = 0;
        while (steps[axis] != 1) {
            axis++;
        }
        return axis;
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
        int unit = contiguous();
        long rowStride = stride(unit);
        long strips = Math.ceilDiv(dims[unit], (long) BLOCK);
        long others = to.count() / dims[unit] / dims[last];
        long grain = Math.max(1, CpuContext.GRAIN / (BLOCK * dims[last]));
        parallel.ranges(others * strips, grain, (first, end) -> {
            Blocks blocks = new Blocks(from.dtype().bits());
            for (long s = first; s < end; s++) {
                long other = s / strips;
                long row = s % strips * BLOCK;
                int rows = (int) Math.min(BLOCK, dims[unit] - row);
                long in = source(other, last, unit) + row;
                long out = target(other, last, unit) + row * rowStride;
                for (long column = 0; column < dims[last]; column += BLOCK) {
                    int columns = (int) Math.min(BLOCK, dims[last] - column);
                    turn(
                            from,
                            in + column * steps[last],
                            steps[last],
                            to,
                            out + column,
                            rowStride,
                            rows,
                            columns,
                            blocks);
                }
            }
        });
    }

    /** {@code to[out + r·toStride + c] = from[in + r + c·fromStride]}, by way of a block in the first cache. */
    private static void turn(
            CpuTensor from,
            long in,
            long fromStride,
            CpuTensor to,
            long out,
            long toStride,
            int rows,
            int columns,
            Blocks blocks) {
        MemorySegment source = from.bytes();
        MemorySegment target = to.bytes();
        switch (from.dtype().bits()) {
            case 32 -> {
                for (int c = 0; c < columns; c++) {
                    long at = (in + c * fromStride) * 4;
                    MemorySegment.copy(source, Tensor.I32_LE, at, blocks.ints, c * PITCH, rows);
                }
                for (int r = 0; r < rows; r++) {
                    for (int c = 0; c < columns; c++) {
                        blocks.intRow[c] = blocks.ints[c * PITCH + r];
                    }
                    MemorySegment.copy(blocks.intRow, 0, target, Tensor.I32_LE, (out + r * toStride) * 4, columns);
                }
            }
            case 16 -> {
                for (int c = 0; c < columns; c++) {
                    long at = (in + c * fromStride) * 2;
                    MemorySegment.copy(source, Tensor.I16_LE, at, blocks.shorts, c * PITCH, rows);
                }
                for (int r = 0; r < rows; r++) {
                    for (int c = 0; c < columns; c++) {
                        blocks.shortRow[c] = blocks.shorts[c * PITCH + r];
                    }
                    MemorySegment.copy(blocks.shortRow, 0, target, Tensor.I16_LE, (out + r * toStride) * 2, columns);
                }
            }
            default -> {
                int width = from.dtype().bits() / 8;
                for (int r = 0; r < rows; r++) {
                    for (int c = 0; c < columns; c++) {
                        long at = (in + r + c * fromStride) * width;
                        MemorySegment.copy(source, at, target, (out + r * toStride + c) * width, width);
                    }
                }
            }
        }
    }

    /** A block as it lies in the source, and a row of its turned form. */
    private static final class Blocks {
        private final int[] ints;
        private final int[] intRow;
        private final short[] shorts;
        private final short[] shortRow;

        Blocks(int bits) {
            ints = new int[bits == 32 ? BLOCK * PITCH : 0];
            intRow = new int[bits == 32 ? BLOCK : 0];
            shorts = new short[bits == 16 ? BLOCK * PITCH : 0];
            shortRow = new short[bits == 16 ? BLOCK : 0];
        }
    }
}
