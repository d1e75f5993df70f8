package dev.octet.trainer.op.unary;

import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.kernel.VectorMath;

/** {@code y = tanh x}; dx = g·(1 - y²). */
public record Tanh(OperandType x) implements UnaryOp {
    @Override
    public String type() {
        return "Tanh";
    }

    @Override
    public SavedForBackward kept() {
        return SavedForBackward.OUTPUT;
    }

    @Override
    public double value(double x) {
        return Math.tanh(x);
    }

    @Override
    public double gradient(double g, double kept) {
        return g * (1 - kept * kept);
    }

    @Override
    public void value(float[] x, float[] y, int n) {
        VectorMath.tanh(x, 0, y, 0, n);
    }

    @Override
    public void gradient(float[] g, float[] kept, float[] dx, int n) {
        for (int i = 0; i < n; i++) {
            dx[i] = g[i] * (1 - kept[i] * kept[i]);
        }
    }
}
