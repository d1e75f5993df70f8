package dev.octet.trainer.op.elements;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import java.lang.foreign.MemorySegment;

/** Rows are copied as bytes. The gradient is summed in F32 by one thread, in the order of the indices, and rounded once. */
final class GatherElementsCpu implements CpuKernel<GatherElements> {
    @Override
    public void forward(GatherElements op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor x = frame.input(0);
        CpuTensor y = frame.output(0);
        long[] starts = op.places().starts(frame.input(1)::readLong);
        copyRows(x, starts, op.places().inner(), y, cpu);
    }

    /** {@code y[r] = x[starts[r]]}, row by row. */
    static void copyRows(CpuTensor x, long[] starts, long inner, CpuTensor y, CpuContext cpu) {
        long width = x.dtype().bits() / 8;
        cpu.parallel().ranges(starts.length, Math.max(1, CpuContext.GRAIN / Math.max(1, inner)), (from, to) -> {
            for (long r = from; r < to; r++) {
                MemorySegment.copy(x.bytes(), starts[(int) r] * width, y.bytes(), r * inner * width, inner * width);
            }
        });
    }

    @Override
    public void backward(GatherElements op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor dy = frame.upstream(0);
        CpuTensor dx = frame.gradient(0);
        float[] sum = new float[Math.toIntExact(dx.count())];
        addRows(
                dy,
                op.places().starts(frame.input(1)::readLong),
                (int) op.places().inner(),
                sum);
        dx.write(0, sum, 0, sum.length);
    }

    /** {@code sum[starts[r]] += rows[r]}, in order. */
    static void addRows(CpuTensor rows, long[] starts, int inner, float[] sum) {
        float[] all = new float[Math.toIntExact(rows.count())];
        rows.read(0, all, 0, all.length);
        for (int r = 0; r < starts.length; r++) {
            int to = (int) starts[r];
            for (int i = 0; i < inner; i++) {
                sum[to + i] += all[r * inner + i];
            }
        }
    }
}
