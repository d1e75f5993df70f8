package dev.octet.trainer.op.unary;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** Element by element. */
final class UnaryReference implements ReferenceKernel<Unary> {
    @Override
    public void forward(Unary op, Frame<double[]> frame) {
        double[] x = frame.input(0);
        double[] y = frame.output(0);
        for (int i = 0; i < y.length; i++) {
            y[i] = op.value(x[i]);
        }
    }

    @Override
    public void backward(Unary op, Frame<double[]> frame) {
        double[] g = frame.upstream(0);
        double[] saved = switch (op.function().gradient().saved()) {
            case INPUT -> frame.input(0);
            case OUTPUT -> frame.output(0);
            case NOTHING -> g; // not looked at
        };
        double[] dx = frame.gradient(0);
        for (int i = 0; i < dx.length; i++) {
            dx[i] = op.gradient(g[i], saved[i]);
        }
    }
}
