package dev.octet.trainer.op.unary;

import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.kernel.VectorMath;

/** {@code y = e^x}; dx = g·y. */
public record Exp(OperandType x) implements UnaryOp {
    @Override
    public String type() {
        return "Exp";
    }

    @Override
    public SavedForBackward kept() {
        return SavedForBackward.OUTPUT;
    }

    @Override
    public double value(double x) {
        return Math.exp(x);
    }

    @Override
    public double gradient(double g, double kept) {
        return g * kept;
    }

    @Override
    public void value(float[] x, float[] y, int n) {
        VectorMath.exp(x, 0, y, 0, n);
    }

    @Override
    public void gradient(float[] g, float[] kept, float[] dx, int n) {
        for (int i = 0; i < n; i++) {
            dx[i] = g[i] * kept[i];
        }
    }
}
