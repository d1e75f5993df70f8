package dev.octet.trainer.op.unary;

import dev.octet.trainer.kernel.OperandType;

/** {@code y = cos x}. */
public record Cos(OperandType x) implements UnaryOp {
    @Override
    public String type() {
        return "Cos";
    }

    @Override
    public SavedForBackward kept() {
        return SavedForBackward.INPUT;
    }

    @Override
    public double value(double x) {
        return Math.cos(x);
    }

    @Override
    public double gradient(double g, double kept) {
        return -g * Math.sin(kept);
    }

    @Override
    public void value(float[] x, float[] y, int n) {
        for (int i = 0; i < n; i++) {
            y[i] = (float) Math.cos(x[i]);
        }
    }

    @Override
    public void gradient(float[] g, float[] kept, float[] dx, int n) {
        for (int i = 0; i < n; i++) {
            dx[i] = -g[i] * (float) Math.sin(kept[i]);
        }
    }
}
