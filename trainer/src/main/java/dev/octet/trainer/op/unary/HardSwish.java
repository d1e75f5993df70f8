package dev.octet.trainer.op.unary;

import dev.octet.trainer.kernel.OperandType;

/** {@code y = x·max(0, min(1, x/6 + 1/2))}; the gradient is 0 up to -3, g from 3 on, g·(x/3 + 1/2) between. */
public record HardSwish(OperandType x) implements UnaryOp {
    @Override
    public String type() {
        return "HardSwish";
    }

    @Override
    public SavedForBackward kept() {
        return SavedForBackward.INPUT;
    }

    @Override
    public double value(double x) {
        return x * Math.max(0, Math.min(1, x / 6 + 0.5));
    }

    @Override
    public double gradient(double g, double kept) {
        return kept <= -3 ? 0 : kept >= 3 ? g : g * (kept / 3 + 0.5);
    }

    @Override
    public void value(float[] x, float[] y, int n) {
        for (int i = 0; i < n; i++) {
            y[i] = x[i] * Math.max(0, Math.min(1, x[i] / 6 + 0.5f));
        }
    }

    @Override
    public void gradient(float[] g, float[] kept, float[] dx, int n) {
        for (int i = 0; i < n; i++) {
            dx[i] = kept[i] <= -3 ? 0 : kept[i] >= 3 ? g[i] : g[i] * (kept[i] / 3 + 0.5f);
        }
    }
}
