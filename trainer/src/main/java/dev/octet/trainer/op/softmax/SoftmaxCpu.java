package dev.octet.trainer.op.softmax;

import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.VectorMath;

/**
 * What is normalised together goes through an array that stays in the cache: x is read once forward, and y and dy once backward. Behind
 * the axis ({@code inner}), blocks of [size, inner] are read whole and their columns gathered.
 */
final class SoftmaxCpu implements CpuKernel<Softmax> {
    @Override
    public void forward(Softmax op, Frame<CpuTensor> frame, CpuContext cpu) {
        int n = op.size() * op.inner();
        cpu.parallel().ranges(op.outer(), grain(n), (from, to) -> {
            float[] block = new float[n];
            float[] column = op.inner() == 1 ? block : new float[op.size()];
            float[] spare = new float[op.logarithm() ? op.size() : 0];
            for (long o = from; o < to; o++) {
                frame.input(0).read(o * n, block, 0, n);
                for (int i = 0; i < op.inner(); i++) {
                    gather(block, i, op, column);
                    if (op.logarithm()) {
                        logarithm(column, spare);
                    } else {
                        normalise(column);
                    }
                    scatter(column, block, i, op);
                }
                frame.output(0).write(o * n, block, 0, n);
            }
        });
    }

    /** Blocks of a piece: some tiles. */
    private static long grain(int n) {
        return Math.max(1, 4 * CpuContext.TILE / Math.max(1, n));
    }

    private static void gather(float[] block, int i, Softmax op, float[] column) {
        if (op.inner() != 1) { // otherwise they are the same array
            for (int k = 0; k < column.length; k++) {
                column[k] = block[k * op.inner() + i];
            }
        }
    }

    private static void scatter(float[] column, float[] block, int i, Softmax op) {
        if (op.inner() != 1) { // otherwise they are the same array
            for (int k = 0; k < column.length; k++) {
                block[k * op.inner() + i] = column[k];
            }
        }
    }

    private static void normalise(float[] x) {
        float max = VectorMath.max(x, 0, x.length);
        float factor = 1 / VectorMath.expOfDifference(x, 0, max, x, 0, x.length);
        for (int k = 0; k < x.length; k++) {
            x[k] *= factor;
        }
    }

    private static void logarithm(float[] x, float[] spare) {
        float max = VectorMath.max(x, 0, x.length);
        float log = (float) Math.log(VectorMath.expOfDifference(x, 0, max, spare, 0, x.length));
        for (int k = 0; k < x.length; k++) {
            x[k] = x[k] - max - log;
        }
    }

    @Override
    public void backward(Softmax op, Frame<CpuTensor> frame, CpuContext cpu) {
        int n = op.size() * op.inner();
        cpu.parallel().ranges(op.outer(), grain(n), (from, to) -> {
            float[] values = new float[n];
            float[] ups = new float[n];
            float[] y = op.inner() == 1 ? values : new float[op.size()];
            float[] up = op.inner() == 1 ? ups : new float[op.size()];
            for (long o = from; o < to; o++) {
                frame.output(0).read(o * n, values, 0, n);
                frame.upstream(0).read(o * n, ups, 0, n);
                for (int i = 0; i < op.inner(); i++) {
                    gather(values, i, op, y);
                    gather(ups, i, op, up);
                    if (op.logarithm()) {
                        throughLogarithm(y, up);
                    } else {
                        throughNormalise(y, up);
                    }
                    scatter(up, ups, i, op);
                }
                frame.gradient(0).write(o * n, ups, 0, n);
            }
        });
    }

    private static void throughNormalise(float[] y, float[] up) {
        float dot = VectorMath.dot(y, 0, up, 0, y.length);
        for (int k = 0; k < y.length; k++) {
            up[k] = y[k] * (up[k] - dot);
        }
    }

    /** {@code y} becomes its exponential. */
    private static void throughLogarithm(float[] y, float[] up) {
        float sum = VectorMath.sum(up, 0, up.length);
        VectorMath.exp(y, 0, y, 0, y.length);
        for (int k = 0; k < y.length; k++) {
            up[k] -= y[k] * sum;
        }
    }
}
