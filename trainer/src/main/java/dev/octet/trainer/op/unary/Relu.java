package dev.octet.trainer.op.unary;

import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.kernel.VectorMath;
import java.util.Arrays;

/** {@code y = max(x, 0)}; no gradient at 0, as in torch. NaN stays NaN. */
public record Relu(OperandType x) implements UnaryOp {
    @Override
    public String type() {
        return "Relu";
    }

    @Override
    public SavedForBackward kept() {
        return SavedForBackward.OUTPUT;
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
            y[i] = Math.max(x[i], 0);
        }
    }

    @Override
    public void gradient(float[] g, float[] kept, float[] dx, int n) {
        Arrays.fill(dx, 0, n, 0);
        VectorMath.select(kept, g, dx, dx, n);
    }
}
