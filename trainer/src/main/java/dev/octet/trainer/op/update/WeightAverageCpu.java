package dev.octet.trainer.op.update;

import static dev.octet.trainer.op.update.UpdateCpu.keep;
import static dev.octet.trainer.op.update.UpdateCpu.scalar;
import static dev.octet.trainer.op.update.UpdateCpu.tiles;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** In F32. A step whose weights do not enter the average reads nothing. */
final class WeightAverageCpu implements CpuKernel.Forward<WeightAverage> {
    @Override
    public void forward(WeightAverage op, Frame<CpuTensor> frame, CpuContext cpu) {
        float weight = (float) op.weight(scalar(frame, 2), scalar(frame, 3) != 0);
        if (weight == 0) {
            keep(frame, 0, 0);
            return;
        }
        tiles(op.p().count(), cpu, () -> {
            float[] average = new float[CpuContext.TILE];
            float[] p = new float[CpuContext.TILE];
            return (from, n) -> {
                frame.input(0).read(from, average, 0, n);
                frame.input(1).read(from, p, 0, n);
                for (int i = 0; i < n; i++) {
                    average[i] = weight == 1 ? p[i] : average[i] + weight * (p[i] - average[i]);
                }
                frame.output(0).write(from, average, 0, n);
            };
        });
    }
}
