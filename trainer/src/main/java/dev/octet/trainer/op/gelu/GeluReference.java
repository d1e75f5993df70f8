package dev.octet.trainer.op.gelu;

import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.ReferenceKernel;

/** Exact: y' = Φ(x) + x φ(x). By tanh, with t = tanh(u(x)): y' = (1 + t) / 2 + x/2 (1 - t²) u'(x). */
final class GeluReference implements ReferenceKernel<Gelu> {
    @Override
    public void forward(Gelu op, Frame<double[]> frame) {
        double[] x = frame.input(0);
        for (int i = 0; i < x.length; i++) {
            frame.output(0)[i] = x[i] * share(op, x[i]);
        }
    }

    @Override
    public void backward(Gelu op, Frame<double[]> frame) {
        double[] x = frame.input(0);
        double[] dy = frame.upstream(0);
        for (int i = 0; i < x.length; i++) {
            frame.gradient(0)[i] = dy[i] * derivative(op, x[i]);
        }
    }

    private static double inner(double x) {
        return Gelu.SLOPE * (x + Gelu.CUBE * x * x * x);
    }

    /** y / x. */
    private static double share(Gelu op, double x) {
        return op.tanh() ? 0.5 * (1 + Math.tanh(inner(x))) : normalDistribution(x);
    }

    private static double derivative(Gelu op, double x) {
        if (!op.tanh()) {
            return normalDistribution(x) + x * Math.exp(-x * x / 2) / Math.sqrt(2 * Math.PI);
        }
        double t = Math.tanh(inner(x));
        return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * Gelu.SLOPE * (1 + 3 * Gelu.CUBE * x * x);
    }

    /**
     * Φ(x) = 1/2 + φ(x) (x + x³/3 + x⁵/(3·5) + ..) (Abramowitz and Stegun, 26.2.11); all terms have one sign, so nothing cancels where
     * x is positive. Below -9, where it is less than 1e-18, 0.
     */
    static double normalDistribution(double x) {
        if (Math.abs(x) > 9) {
            return x > 0 ? 1 : x < 0 ? 0 : x;
        }
        double term = x;
        double sum = x;
        for (int k = 3; Math.abs(term) > 1e-17 * Math.abs(sum); k += 2) {
            term *= x * x / k;
            sum += term;
        }
        return 0.5 + sum * Math.exp(-x * x / 2) / Math.sqrt(2 * Math.PI);
    }
}
