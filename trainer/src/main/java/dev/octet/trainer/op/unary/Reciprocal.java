package dev.octet.trainer.op.unary;

import dev.octet.trainer.kernel.OperandType;

/** {@code y = 1 / x}; dx = -g·y². */
public record Reciprocal(OperandType x) implements UnaryOp {
    @Override
    public String type() {
        return "Reciprocal";
    }

    @Override
    public SavedForBackward kept() {
        return SavedForBackward.OUTPUT;
    }

    @Override
    public double value(double x) {
        return 1 / x;
    }

    @Override
    public double gradient(double g, double kept) {
        return -g * kept * kept;
    }

    @Override
    public void value(float[] x, float[] y, int n) {
        for (int i = 0; i < n; i++) {
            y[i] = 1 / x[i];
        }
    }

    @Override
    public void gradient(float[] g, float[] kept, float[] dx, int n) {
        for (int i = 0; i < n; i++) {
            dx[i] = -g[i] * kept[i] * kept[i];
        }
    }
}
