package dev.octet.trainer.op.binary;

import dev.octet.trainer.kernel.Broadcast;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** Element by element; a repeated element gets the sum of the gradients of its repetitions. */
final class BinaryReference implements ReferenceKernel<Binary> {
    private static final double[] NOT_READ = {Double.NaN};

    @Override
    public void forward(Binary op, Frame<double[]> frame) {
        Pair p = op.pair();
        Broadcast broadcast = Broadcast.of(p.y().shape(), p.a().shape(), p.b().shape());
        double[] a = frame.input(0);
        double[] b = frame.input(1);
        double[] y = frame.output(0);
        for (int i = 0; i < y.length; i++) {
            y[i] = op.value(a[(int) broadcast.index(0, i)], b[(int) broadcast.index(1, i)]);
        }
    }

    @Override
    public void backward(Binary op, Frame<double[]> frame) {
        Pair p = op.pair();
        Broadcast broadcast = Broadcast.of(p.y().shape(), p.a().shape(), p.b().shape());
        double[] g = frame.upstream(0);
        for (int k = 0; k < 2; k++) {
            if (!frame.wantsGradient(k)) {
                continue;
            }
            boolean readsA = op.reads(k, 0);
            boolean readsB = op.reads(k, 1);
            double[] a = readsA ? frame.input(0) : NOT_READ;
            double[] b = readsB ? frame.input(1) : NOT_READ;
            double[] gradient = frame.gradient(k);
            for (int i = 0; i < g.length; i++) {
                double ai = readsA ? a[(int) broadcast.index(0, i)] : Double.NaN;
                double bi = readsB ? b[(int) broadcast.index(1, i)] : Double.NaN;
                gradient[(int) broadcast.index(k, i)] += op.gradient(k, g[i], ai, bi);
            }
        }
    }
}
