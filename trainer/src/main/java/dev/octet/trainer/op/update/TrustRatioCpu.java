package dev.octet.trainer.op.update;

import static dev.octet.trainer.op.update.UpdateCpu.scalar;
import static dev.octet.trainer.op.update.UpdateCpu.tiles;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** Elements in F32, sums in F64, tile by tile, tiles added in order. */
final class TrustRatioCpu implements CpuKernel.Forward<TrustRatio> {
    @Override
    public void forward(TrustRatio op, Frame<CpuTensor> frame, CpuContext cpu) {
        long count = op.p().count();
        double t = scalar(frame, 4);
        float factor = scalar(frame, 5);
        float weight1 = (float) (1 - op.beta1());
        float beta2 = (float) op.beta2();
        float weight2 = (float) (1 - op.beta2());
        float correction = (float) op.correction(t);
        float root = (float) op.rootCorrection(t);
        float eps = (float) op.eps();
        float decay = (float) op.weightDecay();
        int pieces = Math.toIntExact(Math.ceilDiv(count, (long) CpuContext.TILE));
        double[] ofP = new double[pieces];
        double[] ofUpdate = new double[pieces];
        tiles(count, cpu, () -> {
            float[] p = new float[CpuContext.TILE];
            float[] g = new float[CpuContext.TILE];
            float[] m = new float[CpuContext.TILE];
            float[] v = new float[CpuContext.TILE];
            return (from, n) -> {
                frame.input(0).read(from, p, 0, n);
                frame.input(1).read(from, g, 0, n);
                frame.input(2).read(from, m, 0, n);
                frame.input(3).read(from, v, 0, n);
                double squares = 0;
                double updates = 0;
                for (int i = 0; i < n; i++) {
                    float x = g[i] * factor;
                    float first = m[i] + weight1 * (x - m[i]);
                    float second = v[i] * beta2 + weight2 * x * x;
                    float u = first / correction / ((float) Math.sqrt(second) / root + eps) + decay * p[i];
                    squares += (double) p[i] * p[i];
                    updates += (double) u * u;
                }
                ofP[(int) (from / CpuContext.TILE)] = squares;
                ofUpdate[(int) (from / CpuContext.TILE)] = updates;
            };
        });
        double squares = 0;
        double updates = 0;
        for (int i = 0; i < pieces; i++) {
            squares += ofP[i];
            updates += ofUpdate[i];
        }
        frame.output(0).write(0, new float[] {(float) op.multiplier(squares, updates, t)}, 0, 1);
    }
}
