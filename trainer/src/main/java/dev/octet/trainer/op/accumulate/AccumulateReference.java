package dev.octet.trainer.op.accumulate;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** da = dx = dy. */
final class AccumulateReference implements ReferenceKernel<Accumulate> {
    @Override
    public void forward(Accumulate op, Frame<double[]> frame) {
        double[] a = frame.input(0);
        double[] x = frame.input(1);
        double[] y = frame.output(0);
        for (int i = 0; i < y.length; i++) {
            y[i] = a[i] + x[i];
        }
    }

    @Override
    public void backward(Accumulate op, Frame<double[]> frame) {
        double[] dy = frame.upstream(0);
        for (int i = 0; i < 2; i++) {
            if (frame.wantsGradient(i)) {
                System.arraycopy(dy, 0, frame.gradient(i), 0, dy.length);
            }
        }
    }
}
