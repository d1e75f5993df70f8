package dev.octet.trainer.op.cumsum;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** Line by line, sums in F64: exact for the counts and positions it mostly makes. */
final class CumSumCpu implements CpuKernel<CumSum> {
    @Override
    public void forward(CumSum op, Frame<CpuTensor> frame, CpuContext cpu) {
        run(op, frame.input(0), frame.output(0), cpu);
    }

    @Override
    public void backward(CumSum op, Frame<CpuTensor> frame, CpuContext cpu) {
        run(op.back(), frame.upstream(0), frame.gradient(0), cpu);
    }

    private static void run(CumSum op, CpuTensor x, CpuTensor y, CpuContext cpu) {
        if (y.count() == 0) {
            return;
        }
        int inner = op.inner();
        long lines = y.count() / op.size();
        cpu.parallel().ranges(lines, Math.max(1, CpuContext.GRAIN / op.size()), (from, to) -> {
            for (long line = from; line < to; line++) {
                long start = line / inner * op.size() * inner + line % inner;
                double sum = 0;
                for (int step = 0; step < op.size(); step++) {
                    int k = op.reverse() ? op.size() - 1 - step : step;
                    long at = start + (long) k * inner;
                    double value = x.readNumber(at);
                    y.writeNumber(at, op.exclusive() ? sum : sum + value);
                    sum += value;
                }
            }
        });
    }
}
