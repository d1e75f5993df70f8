package dev.octet.trainer.op.elements;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** By one thread, element by element: these operators are rare and small in what is trained. */
final class ScatterCpu implements CpuKernel<Scatter> {
    @Override
    public void forward(Scatter op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor y = frame.output(0);
        CpuTensor updates = frame.input(2);
        long[] starts = op.places().starts(frame.input(1)::readLong);
        if (op.adds() && y.dtype().isFloat()) {
            float[] sum = new float[Math.toIntExact(y.count())];
            frame.input(0).read(0, sum, 0, sum.length);
            GatherElementsCpu.addRows(updates, starts, (int) op.places().inner(), sum);
            y.write(0, sum, 0, sum.length);
            return;
        }
        y.bytes().copyFrom(frame.input(0).bytes());
        long inner = op.places().inner();
        for (int r = 0; r < starts.length; r++) {
            for (long i = 0; i < inner; i++) {
                double old = op.adds() ? y.readNumber(starts[r] + i) : 0;
                y.writeNumber(starts[r] + i, old + updates.readNumber(r * inner + i));
            }
        }
    }

    @Override
    public void backward(Scatter op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor dy = frame.upstream(0);
        long[] starts = op.places().starts(frame.input(1)::readLong);
        int[] by = op.adds() ? new int[0] : op.replacedBy(starts);
        if (frame.wantsGradient(0)) {
            CpuTensor dx = frame.gradient(0);
            dx.bytes().copyFrom(dy.bytes());
            for (int i = 0; i < by.length; i++) {
                if (by[i] >= 0) {
                    dx.writeNumber(i, 0);
                }
            }
        }
        if (frame.wantsGradient(2)) {
            CpuTensor du = frame.gradient(2);
            long inner = op.places().inner();
            GatherElementsCpu.copyRows(dy, starts, inner, du, cpu);
            for (int k = 0; !op.adds() && k < du.count(); k++) {
                if (by[(int) (starts[(int) (k / inner)] + k % inner)] != k) {
                    du.writeNumber(k, 0);
                }
            }
        }
    }
}
