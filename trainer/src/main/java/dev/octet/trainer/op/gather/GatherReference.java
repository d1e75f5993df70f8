package dev.octet.trainer.op.gather;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.Indices;
import dev.octet.trainer.kernel.ReferenceKernel;

/** dx[o, indices[j], i] += dy[o, j, i]. */
final class GatherReference implements ReferenceKernel<Gather> {
    @Override
    public void forward(Gather op, Frame<double[]> frame) {
        double[] x = frame.input(0);
        double[] y = frame.output(0);
        int[] at = Indices.resolve(op.node(), frame.input(1), op.size());
        for (int i = 0; i < y.length; i++) {
            y[i] = x[source(op, at, i)];
        }
    }

    @Override
    public void backward(Gather op, Frame<double[]> frame) {
        double[] dy = frame.upstream(0);
        double[] dx = frame.gradient(0);
        int[] at = Indices.resolve(op.node(), frame.input(1), op.size());
        for (int i = 0; i < dy.length; i++) {
            int to = source(op, at, i);
            if (to / op.inner() % op.size() != op.padding()) {
                dx[to] += dy[i];
            }
        }
    }

    /** The element of x that element {@code i} of y is. */
    private static int source(Gather op, int[] at, int i) {
        long inner = i % op.inner();
        long j = i / op.inner() % at.length;
        long outer = i / op.inner() / at.length;
        return (int) ((outer * op.size() + at[(int) j]) * op.inner() + inner);
    }
}
