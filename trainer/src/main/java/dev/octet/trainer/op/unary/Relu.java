package dev.octet.trainer.op.unary;

import dev.octet.trainer.kernel.OperandType;

/** {@code y = max(x, 0)}; no gradient at 0, as in torch. NaN stays NaN. */
public record Relu(OperandType x) implements UnaryOp {
    @Override
    public String type() {
        return "Relu";
    }

    @Override
    public Kept kept() {
        return Kept.OUTPUT;
    }

    @Override
    public double value(double x) {
        return x <= 0 ? 0 : x;
    }

    @Override
    public double gradient(double g, double kept) {
        return kept <= 0 ? 0 : g;
    }

    @Override
    public void value(float[] x, float[] y, int n) {
        for (int i = 0; i < n; i++) {
            y[i] = x[i] <= 0 ? 0 : x[i];
        }
    }

    @Override
    public void gradient(float[] g, float[] kept, float[] dx, int n) {
        for (int i = 0; i < n; i++) {
            dx[i] = kept[i] <= 0 ? 0 : g[i];
        }
    }
}
