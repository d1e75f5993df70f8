package dev.octet.trainer.op.unary;

import dev.octet.trainer.kernel.OperandType;

/** {@code y = √x}; dx = g / 2y, infinite at 0. */
public record Sqrt(OperandType x) implements UnaryOp {
    @Override
    public String type() {
        return "Sqrt";
    }

    @Override
    public SavedForBackward kept() {
        return SavedForBackward.OUTPUT;
    }

    @Override
    public double value(double x) {
        return Math.sqrt(x);
    }

    @Override
    public double gradient(double g, double kept) {
        return g / (2 * kept);
    }

    @Override
    public void value(float[] x, float[] y, int n) {
        for (int i = 0; i < n; i++) {
            y[i] = (float) Math.sqrt(x[i]);
        }
    }

    @Override
    public void gradient(float[] g, float[] kept, float[] dx, int n) {
        for (int i = 0; i < n; i++) {
            dx[i] = g[i] / (2 * kept[i]);
        }
    }
}
