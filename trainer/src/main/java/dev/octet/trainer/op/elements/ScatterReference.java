package dev.octet.trainer.op.elements;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** Row by row. */
final class ScatterReference implements ReferenceKernel<Scatter> {
    @Override
    public void forward(Scatter op, Frame<double[]> frame) {
        double[] y = frame.output(0);
        System.arraycopy(frame.input(0), 0, y, 0, y.length);
        int inner = (int) op.places().inner();
        long[] starts = op.places().starts(i -> (long) frame.input(1)[(int) i]);
        for (int r = 0; r < starts.length; r++) {
            for (int i = 0; i < inner; i++) {
                int at = (int) starts[r] + i;
                y[at] = (op.adds() ? y[at] : 0) + frame.input(2)[r * inner + i];
            }
        }
    }

    @Override
    public void backward(Scatter op, Frame<double[]> frame) {
        double[] dy = frame.upstream(0);
        int inner = (int) op.places().inner();
        long[] starts = op.places().starts(i -> (long) frame.input(1)[(int) i]);
        int[] by = op.replacedBy(starts);
        if (frame.wantsGradient(0)) {
            for (int i = 0; i < dy.length; i++) {
                frame.gradient(0)[i] = op.adds() || by[i] < 0 ? dy[i] : 0;
            }
        }
        if (frame.wantsGradient(2)) {
            for (int k = 0; k < frame.gradient(2).length; k++) {
                int at = (int) starts[k / inner] + k % inner;
                frame.gradient(2)[k] = op.adds() || by[at] == k ? dy[at] : 0;
            }
        }
    }
}
