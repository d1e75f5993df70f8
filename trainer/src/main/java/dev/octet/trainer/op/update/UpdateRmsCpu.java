package dev.octet.trainer.op.update;

import static dev.octet.trainer.op.update.UpdateCpu.scalar;
import static dev.octet.trainer.op.update.UpdateCpu.tiles;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** Elements in F32, tile by tile, tiles added in order in F64. */
final class UpdateRmsCpu implements CpuKernel.Forward<UpdateRms> {
    @Override
    public void forward(UpdateRms op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor g = frame.input(0);
        CpuTensor v = frame.input(1);
        float factor = scalar(frame, 3);
        float correction = (float) op.correction(scalar(frame, 2));
        float beta2 = (float) op.beta2();
        float weight = (float) (1 - op.beta2());
        float least = (float) (op.eps() * op.eps());
        double[] sums = new double[Math.toIntExact(Math.ceilDiv(g.count(), (long) CpuContext.TILE))];
        tiles(g.count(), cpu, () -> {
            float[] gradient = new float[CpuContext.TILE];
            float[] second = new float[CpuContext.TILE];
            return (from, n) -> {
                g.read(from, gradient, 0, n);
                v.read(from, second, 0, n);
                double sum = 0;
                for (int i = 0; i < n; i++) {
                    float x = gradient[i] * factor;
                    float u = (beta2 * second[i] + weight * x * x) / correction;
                    float expected = Math.max(u, least);
                    sum += expected > 0 ? x * x / expected : 0;
                }
                sums[(int) (from / CpuContext.TILE)] = sum;
            };
        });
        double sum = 0;
        for (double s : sums) {
            sum += s;
        }
        frame.output(0).write(0, new float[] {(float) op.root(sum)}, 0, 1);
    }
}
