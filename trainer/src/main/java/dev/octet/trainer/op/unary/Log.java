package dev.octet.trainer.op.unary;

import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.kernel.VectorMath;

/** {@code y = ln x}; dx = g / x. */
public record Log(OperandType x) implements UnaryOp {
    @Override
    public String type() {
        return "Log";
    }

    @Override
    public SavedForBackward kept() {
        return SavedForBackward.INPUT;
    }

    @Override
    public double value(double x) {
        return Math.log(x);
    }

    @Override
    public double gradient(double g, double kept) {
        return g / kept;
    }

    @Override
    public void value(float[] x, float[] y, int n) {
        VectorMath.log(x, 0, y, 0, n);
    }

    @Override
    public void gradient(float[] g, float[] kept, float[] dx, int n) {
        for (int i = 0; i < n; i++) {
            dx[i] = g[i] / kept[i];
        }
    }
}
