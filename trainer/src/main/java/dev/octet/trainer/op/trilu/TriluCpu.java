package dev.octet.trainer.op.trilu;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import java.lang.foreign.MemorySegment;

/** Row by row: what is kept is copied, the rest zeroed. */
final class TriluCpu implements CpuKernel<Trilu> {
    @Override
    public void forward(Trilu op, Frame<CpuTensor> frame, CpuContext cpu) {
        keep(op, frame.input(0), frame.output(0), cpu);
    }

    @Override
    public void backward(Trilu op, Frame<CpuTensor> frame, CpuContext cpu) {
        keep(op, frame.upstream(0), frame.gradient(0), cpu);
    }

    private static void keep(Trilu op, CpuTensor from, CpuTensor to, CpuContext cpu) {
        if (to.count() == 0) {
            return;
        }
        long width = to.dtype().bits() / 8;
        long grain = Math.max(1, CpuContext.GRAIN / op.columns());
        cpu.parallel().ranges(to.count() / op.columns(), grain, (firstRow, endRow) -> {
            for (long row = firstRow; row < endRow; row++) {
                long start = row * op.columns() * width;
                long first = op.from(row % op.rows()) * width;
                long end = Math.max(first, op.to(row % op.rows()) * width);
                to.bytes().asSlice(start, first).fill((byte) 0);
                MemorySegment.copy(from.bytes(), start + first, to.bytes(), start + first, end - first);
                to.bytes().asSlice(start + end, op.columns() * width - end).fill((byte) 0);
            }
        });
    }
}
