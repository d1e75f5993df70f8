package dev.octet.trainer.op.unary;

import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.kernel.VectorMath;

/** {@code y = x} where x is positive, else {@code alpha·x}. At 0 the slope is alpha, as in torch. */
public record LeakyRelu(OperandType x, float alpha) implements UnaryOp {
    /** Reads ONNX LeakyRelu. */
    public static LeakyRelu read(OpSource source) {
        return new LeakyRelu(source.input(0), source.node().floatAttribute("alpha", 0.01f));
    }

    @Override
    public String type() {
        return "LeakyRelu";
    }

    @Override
    public SavedForBackward kept() {
        return SavedForBackward.INPUT;
    }

    @Override
    public double value(double x) {
        return x > 0 ? x : alpha * x;
    }

    @Override
    public double gradient(double g, double kept) {
        return kept > 0 ? g : alpha * g;
    }

    @Override
    public void value(float[] x, float[] y, int n) {
        for (int i = 0; i < n; i++) {
            y[i] = x[i] > 0 ? x[i] : alpha * x[i];
        }
    }

    @Override
    public void gradient(float[] g, float[] kept, float[] dx, int n) {
        for (int i = 0; i < n; i++) {
            dx[i] = alpha * g[i];
        }
        VectorMath.select(kept, g, dx, dx, n);
    }
}
