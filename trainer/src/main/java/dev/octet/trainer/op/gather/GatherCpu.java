package dev.octet.trainer.op.gather;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.Indices;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.stream.IntStream;

/**
 * Rows are copied. Backward touches only the rows that were used: positions are sorted by row, each row is summed by one thread in the
 * order of the positions. Only when the old content does not count, the gradient is zeroed first.
 */
final class GatherCpu implements CpuKernel<Gather> {
    @Override
    public void forward(Gather op, Frame<CpuTensor> frame, CpuContext cpu) {
        forward(op, Indices.resolve(op.node(), frame.input(1), op.size()), frame, cpu);
    }

    /** @param rows what is looked up; zeros for a negative one */
    static void forward(Gather op, int[] rows, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor x = frame.input(0);
        CpuTensor y = frame.output(0);
        long bytes = op.inner() * x.dtype().bits() / 8;
        long grain = Math.max(1, CpuContext.GRAIN / Math.max(1, op.inner()));
        cpu.parallel().ranges(op.outer() * rows.length, grain, (from, to) -> {
            for (long i = from; i < to; i++) {
                int at = rows[(int) (i % rows.length)];
                if (at < 0) {
                    y.bytes().asSlice(i * bytes, bytes).fill((byte) 0);
                    continue;
                }
                long row = i / rows.length * op.size() + at;
                MemorySegment.copy(x.bytes(), row * bytes, y.bytes(), i * bytes, bytes);
            }
        });
    }

    @Override
    public void backward(Gather op, Frame<CpuTensor> frame, CpuContext cpu) {
        backward(op, Indices.resolve(op.node(), frame.input(1), op.size()), frame, cpu);
    }

    /** @param rows what was looked up; a negative one gets nothing */
    static void backward(Gather op, int[] rows, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor dx = frame.gradient(0);
        if (!frame.accumulates(0)) {
            zero(dx, cpu);
        }
        // row in the upper half, position in the lower: equal rows keep their order
        long[] sorted = IntStream.range(0, rows.length)
                .filter(j -> rows[j] >= 0)
                .mapToLong(j -> (long) rows[j] << 32 | j)
                .sorted()
                .toArray();
        int[] starts = starts(sorted);
        int used = starts.length - 1;
        long grain = Math.max(1, CpuContext.GRAIN / Math.max(1, op.inner()));
        cpu.parallel().ranges(op.outer() * used, grain, (from, to) -> {
            float[] sum = new float[CpuContext.TILE];
            float[] more = new float[CpuContext.TILE];
            for (long i = from; i < to; i++) {
                int k = (int) (i % used);
                if (sorted[starts[k]] >>> 32 == op.padding()) {
                    continue;
                }
                addRow(op, i / used, rows.length, sorted, starts[k], starts[k + 1], frame.upstream(0), dx, sum, more);
            }
        });
    }

    /** Adds the upstream rows at the positions {@code sorted[first .. end - 1]}, which are all of one row, to that row. */
    private static void addRow(
            Gather op,
            long outer,
            int positions,
            long[] sorted,
            int first,
            int end,
            CpuTensor dy,
            CpuTensor dx,
            float[] sum,
            float[] more) {
        long inner = op.inner();
        long to = (outer * op.size() + (sorted[first] >>> 32)) * inner;
        for (long column = 0; column < inner; column += sum.length) {
            int n = (int) Math.min(sum.length, inner - column);
            dx.read(to + column, sum, 0, n);
            for (int k = first; k < end; k++) {
                dy.read((outer * positions + (int) sorted[k]) * inner + column, more, 0, n);
                for (int c = 0; c < n; c++) {
                    sum[c] += more[c];
                }
            }
            dx.write(to + column, sum, 0, n);
        }
    }

    /** Where in {@code sorted} each row begins, and its end. */
    private static int[] starts(long[] sorted) {
        int[] starts = new int[sorted.length + 1];
        int n = 0;
        for (int k = 0; k < sorted.length; k++) {
            if (k == 0 || sorted[k] >>> 32 != sorted[k - 1] >>> 32) {
                starts[n++] = k;
            }
        }
        starts[n] = sorted.length;
        return Arrays.copyOf(starts, n + 1);
    }

    private static void zero(CpuTensor t, CpuContext cpu) {
        long bytes = t.bytes().byteSize();
        cpu.parallel()
                .ranges(
                        bytes,
                        1L << 20,
                        (from, to) -> t.bytes().asSlice(from, to - from).fill((byte) 0));
    }
}
