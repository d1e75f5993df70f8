package dev.octet.trainer.op.unary;

import dev.octet.trainer.kernel.VectorMath;

/** erf in doubles. */
final class ErrorFunction {
    /** Slope at 0. */
    static final double SLOPE = 2 / Math.sqrt(Math.PI);

    private ErrorFunction() {}

    /** 2/√π e^-x² (x + 2x³/3 + 4x⁵/15 + ..): all terms have one sign, nothing cancels (Abramowitz and Stegun, 7.1.6). */
    static double of(double x) {
        if (!(Math.abs(x) < 6)) {
            return Math.signum(x);
        }
        double term = x;
        double sum = x;
        for (int k = 1; Math.abs(term) > 1e-17 * Math.abs(sum); k++) {
            term *= 2 * x * x / (2 * k + 1);
            sum += term;
        }
        return SLOPE * Math.exp(-x * x) * sum;
    }

    /** {@code g·2/√π·e^-x²}. */
    static void gradient(float[] g, float[] x, float[] dx, int n) {
        for (int i = 0; i < n; i++) {
            dx[i] = -x[i] * x[i];
        }
        VectorMath.exp(dx, 0, dx, 0, n);
        for (int i = 0; i < n; i++) {
            dx[i] *= g[i] * (float) SLOPE;
        }
    }
}
