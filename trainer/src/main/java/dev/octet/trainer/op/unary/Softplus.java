package dev.octet.trainer.op.unary;

import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.kernel.VectorMath;

/** {@code y = ln(1 + e^x)}; dx = g / (1 + e^-x). */
public record Softplus(OperandType x) implements UnaryOp {
    @Override
    public String type() {
        return "Softplus";
    }

    @Override
    public SavedForBackward kept() {
        return SavedForBackward.INPUT;
    }

    @Override
    public double value(double x) {
        return x > 0 ? x + Math.log1p(Math.exp(-x)) : Math.log1p(Math.exp(x));
    }

    @Override
    public double gradient(double g, double kept) {
        return g / (1 + Math.exp(-kept));
    }

    @Override
    public void value(float[] x, float[] y, int n) {
        VectorMath.softplus(x, 0, y, 0, n);
    }

    @Override
    public void gradient(float[] g, float[] kept, float[] dx, int n) {
        VectorMath.sigmoid(kept, 0, dx, 0, n);
        for (int i = 0; i < n; i++) {
            dx[i] *= g[i];
        }
    }
}
