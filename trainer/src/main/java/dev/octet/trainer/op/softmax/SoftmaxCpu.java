package dev.octet.trainer.op.softmax;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;

/** Row by row; a row is read once forward, and y and dy once backward. */
public final class SoftmaxCpu implements CpuKernel<Softmax> {
    @Override
    public void forward(Softmax op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor x = frame.input(0);
        CpuTensor y = frame.output(0);
        cpu.parallel().pieces(op.outer(), o -> {
            int n = op.size() * op.inner();
            float[] row = new float[n];
            x.read((long) o * n, row, 0, n);
            for (int i = 0; i < op.inner(); i++) {
                normalise(row, i, op.inner());
            }
            y.write((long) o * n, row, 0, n);
        });
    }

    private static void normalise(float[] row, int from, int step) {
        float max = Float.NEGATIVE_INFINITY;
        for (int k = from; k < row.length; k += step) {
            max = Math.max(max, row[k]);
        }
        float sum = 0;
        for (int k = from; k < row.length; k += step) {
            row[k] = (float) Math.exp(row[k] - max);
            sum += row[k];
        }
        for (int k = from; k < row.length; k += step) {
            row[k] /= sum;
        }
    }

    @Override
    public void backward(Softmax op, Frame<CpuTensor> frame, CpuContext cpu) {
        CpuTensor y = frame.output(0);
        CpuTensor dy = frame.upstream(0);
        CpuTensor dx = frame.gradient(0);
        cpu.parallel().pieces(op.outer(), o -> {
            int n = op.size() * op.inner();
            float[] value = new float[n];
            float[] up = new float[n];
            y.read((long) o * n, value, 0, n);
            dy.read((long) o * n, up, 0, n);
            for (int i = 0; i < op.inner(); i++) {
                float dot = 0;
                for (int k = i; k < n; k += op.inner()) {
                    dot += up[k] * value[k];
                }
                for (int k = i; k < n; k += op.inner()) {
                    up[k] = value[k] * (up[k] - dot);
                }
            }
            dx.write((long) o * n, up, 0, n);
        });
    }
}
