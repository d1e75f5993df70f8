package dev.octet.trainer.op.unary;

import dev.octet.trainer.kernel.OperandType;

/** {@code y = |x|}; dx = g·sign x, 0 at 0. */
public record Abs(OperandType x) implements UnaryOp {
    @Override
    public String type() {
        return "Abs";
    }

    @Override
    public SavedForBackward kept() {
        return SavedForBackward.INPUT;
    }

    @Override
    public double value(double x) {
        return Math.abs(x);
    }

    @Override
    public double gradient(double g, double kept) {
        return g * Math.signum(kept);
    }

    @Override
    public void value(float[] x, float[] y, int n) {
        for (int i = 0; i < n; i++) {
            y[i] = Math.abs(x[i]);
        }
    }

    @Override
    public void gradient(float[] g, float[] kept, float[] dx, int n) {
        for (int i = 0; i < n; i++) {
            dx[i] = g[i] * Math.signum(kept[i]);
        }
    }
}
