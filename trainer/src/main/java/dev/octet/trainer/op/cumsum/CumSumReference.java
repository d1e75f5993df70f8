package dev.octet.trainer.op.cumsum;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** Each sum written out: y[k] = Σ x[j] over j up to k, or before it, or from the other end. */
final class CumSumReference implements ReferenceKernel<CumSum> {
    @Override
    public void forward(CumSum op, Frame<double[]> frame) {
        run(op, frame.input(0), frame.output(0));
    }

    @Override
    public void backward(CumSum op, Frame<double[]> frame) {
        run(op.back(), frame.upstream(0), frame.gradient(0));
    }

    private static void run(CumSum op, double[] x, double[] y) {
        int inner = op.inner();
        for (int i = 0; i < y.length; i++) {
            int k = i / inner % op.size();
            int first = i - k * inner;
            double sum = 0;
            for (int j = 0; j < op.size(); j++) {
                boolean before = op.reverse() ? j > k : j < k;
                if (before || (j == k && !op.exclusive())) {
                    sum += x[first + j * inner];
                }
            }
            y[i] = sum;
        }
    }
}
