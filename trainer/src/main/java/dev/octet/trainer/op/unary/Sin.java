package dev.octet.trainer.op.unary;

import dev.octet.trainer.kernel.OperandType;

/** {@code y = sin x}. */
public record Sin(OperandType x) implements UnaryOp {
    @Override
    public String type() {
        return "Sin";
    }

    @Override
    public SavedForBackward kept() {
        return SavedForBackward.INPUT;
    }

    @Override
    public double value(double x) {
        return Math.sin(x);
    }

    @Override
    public double gradient(double g, double kept) {
        return g * Math.cos(kept);
    }

    @Override
    public void value(float[] x, float[] y, int n) {
        for (int i = 0; i < n; i++) {
            y[i] = (float) Math.sin(x[i]);
        }
    }

    @Override
    public void gradient(float[] g, float[] kept, float[] dx, int n) {
        for (int i = 0; i < n; i++) {
            dx[i] = g[i] * (float) Math.cos(kept[i]);
        }
    }
}
