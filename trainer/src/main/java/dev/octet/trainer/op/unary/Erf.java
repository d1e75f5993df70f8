package dev.octet.trainer.op.unary;

import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.kernel.VectorMath;

/** {@code y = erf x}; dx = g·2/√π·e^-x². */
public record Erf(OperandType x) implements UnaryOp {
    /** Slope at 0. */
    private static final double SLOPE = 2 / Math.sqrt(Math.PI);

    @Override
    public String type() {
        return "Erf";
    }

    @Override
    public SavedForBackward kept() {
        return SavedForBackward.INPUT;
    }

    /** 2/√π e^-x² (x + 2x³/3 + 4x⁵/15 + ..): all terms have one sign, nothing cancels (Abramowitz and Stegun, 7.1.6). */
    @Override
    public double value(double x) {
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

    @Override
    public double gradient(double g, double kept) {
        return SLOPE * Math.exp(-kept * kept) * g;
    }

    @Override
    public void value(float[] x, float[] y, int n) {
        VectorMath.erf(x, 0, y, 0, n);
    }

    @Override
    public void gradient(float[] g, float[] kept, float[] dx, int n) {
        for (int i = 0; i < n; i++) {
            dx[i] = -kept[i] * kept[i];
        }
        VectorMath.exp(dx, 0, dx, 0, n);
        for (int i = 0; i < n; i++) {
            dx[i] *= g[i] * (float) SLOPE;
        }
    }
}
