package dev.octet.trainer.op.loss;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.VectorMath;
import java.util.Arrays;

/** Row by row; both rows are read once forward, and once backward. */
final class RowLossCpu implements CpuKernel<RowLoss> {
    @Override
    public void forward(RowLoss op, Frame<CpuTensor> frame, CpuContext cpu) {
        float[] weights = RowWeights.of(frame, 2, op.rows());
        float[] losses = new float[op.rows()];
        cpu.parallel().ranges(op.rows(), grain(op), (from, to) -> {
            float[] x = new float[op.size()];
            float[] t = new float[op.size()];
            for (int r = (int) from; r < to; r++) {
                if (weights[r] != 0) {
                    frame.input(0).read((long) r * op.size(), x, 0, op.size());
                    frame.input(1).read((long) r * op.size(), t, 0, op.size());
                    losses[r] = weights[r] * loss(op, x, t);
                }
            }
        });
        float divisor = (float) ClassLabels.sum(weights);
        frame.output(0).write(0, new float[] {(float) (ClassLabels.sum(losses) / divisor)}, 0, 1);
        frame.output(1).write(0, new float[] {divisor}, 0, 1);
    }

    private static long grain(RowLoss op) {
        return Math.max(1, 8 * CpuContext.TILE / Math.max(1, op.size()));
    }

    private static float loss(RowLoss op, float[] x, float[] t) {
        return switch (op.kind()) {
            case MEAN_SQUARED_ERROR -> {
                for (int i = 0; i < x.length; i++) {
                    x[i] -= t[i];
                }
                yield dot(x, x) / op.size();
            }
            case COSINE -> 1 - dot(x, t) / (length(x) * length(t));
        };
    }

    private static float dot(float[] x, float[] t) {
        return VectorMath.dot(x, 0, t, 0, x.length);
    }

    private static float length(float[] x) {
        return (float) Math.max(Math.sqrt(dot(x, x)), RowLoss.SHORTEST);
    }

    @Override
    public void backward(RowLoss op, Frame<CpuTensor> frame, CpuContext cpu) {
        float[] weights = RowWeights.of(frame, 2, op.rows());
        float[] one = new float[1];
        frame.upstream(0).read(0, one, 0, 1);
        float up = one[0];
        frame.output(1).read(0, one, 0, 1);
        float divisor = one[0];
        cpu.parallel().ranges(op.rows(), grain(op), (from, to) -> {
            float[] x = new float[op.size()];
            float[] t = new float[op.size()];
            float[] dx = new float[op.size()];
            for (int r = (int) from; r < to; r++) {
                long start = (long) r * op.size();
                frame.input(0).read(start, x, 0, op.size());
                frame.input(1).read(start, t, 0, op.size());
                for (int side = 0; side < 2; side++) {
                    if (frame.wantsGradient(side)) {
                        gradient(op, side == 0 ? x : t, side == 0 ? t : x, weights[r], up / divisor, dx);
                        frame.gradient(side).write(start, dx, 0, op.size());
                    }
                }
            }
        });
    }

    private static void gradient(RowLoss op, float[] x, float[] t, float weight, float up, float[] dx) {
        if (weight == 0) {
            Arrays.fill(dx, 0);
            return;
        }
        float scale = weight * up;
        switch (op.kind()) {
            case MEAN_SQUARED_ERROR -> combine(x, t, 2 * scale / op.size(), -2 * scale / op.size(), dx);
            case COSINE -> {
                float lx = length(x);
                float lt = length(t);
                float c = lx > (float) RowLoss.SHORTEST ? dot(x, t) / (lx * lt) : 0;
                combine(x, t, scale * c / lx / lx, -scale / lt / lx, dx);
            }
        }
    }

    private static void combine(float[] x, float[] t, float ofX, float ofT, float[] to) {
        for (int i = 0; i < to.length; i++) {
            to[i] = x[i] * ofX + t[i] * ofT;
        }
    }
}
