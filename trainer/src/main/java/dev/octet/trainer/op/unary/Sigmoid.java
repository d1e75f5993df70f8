package dev.octet.trainer.op.unary;

import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.kernel.VectorMath;

/** {@code y = 1 / (1 + e^-x)}; dx = g·y·(1 - y). */
public record Sigmoid(OperandType x) implements UnaryOp {
    @Override
    public String type() {
        return "Sigmoid";
    }

    @Override
    public SavedForBackward kept() {
        return SavedForBackward.OUTPUT;
    }

    @Override
    public double value(double x) {
        return 1 / (1 + Math.exp(-x));
    }

    @Override
    public double gradient(double g, double kept) {
        return g * kept * (1 - kept);
    }

    @Override
    public void value(float[] x, float[] y, int n) {
        VectorMath.sigmoid(x, 0, y, 0, n);
    }

    @Override
    public void gradient(float[] g, float[] kept, float[] dx, int n) {
        for (int i = 0; i < n; i++) {
            dx[i] = g[i] * kept[i] * (1 - kept[i]);
        }
    }
}
