package dev.octet.trainer.op.unary;

import dev.octet.trainer.kernel.OperandType;

/** {@code y = -x}. */
public record Neg(OperandType x) implements UnaryOp {
    @Override
    public String type() {
        return "Neg";
    }

    @Override
    public SavedForBackward kept() {
        return SavedForBackward.NOTHING;
    }

    @Override
    public double value(double x) {
        return -x;
    }

    @Override
    public double gradient(double g, double kept) {
        return -g;
    }

    @Override
    public void value(float[] x, float[] y, int n) {
        for (int i = 0; i < n; i++) {
            y[i] = -x[i];
        }
    }

    @Override
    public void gradient(float[] g, float[] kept, float[] dx, int n) {
        for (int i = 0; i < n; i++) {
            dx[i] = -g[i];
        }
    }
}
