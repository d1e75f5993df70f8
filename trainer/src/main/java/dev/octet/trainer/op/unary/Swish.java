package dev.octet.trainer.op.unary;

import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.kernel.VectorMath;

/** {@code y = x·s} with {@code s = 1 / (1 + e^-(alpha·x))} (SiLU for alpha = 1); dx = g·s·(1 + alpha·x·(1 - s)). */
public record Swish(OperandType x, float alpha) implements UnaryOp {
    /** Reads ONNX Swish. */
    public static Swish read(OpSource source) {
        return new Swish(source.input(0), source.node().floatAttribute("alpha", 1));
    }

    private void sigmoid(float[] x, float[] s, int n) {
        for (int i = 0; i < n; i++) {
            s[i] = alpha * x[i];
        }
        VectorMath.sigmoid(s, 0, s, 0, n);
    }

    @Override
    public String type() {
        return "Swish";
    }

    @Override
    public SavedForBackward kept() {
        return SavedForBackward.INPUT;
    }

    @Override
    public double value(double x) {
        return x / (1 + Math.exp(-alpha * x));
    }

    @Override
    public double gradient(double g, double kept) {
        double s = 1 / (1 + Math.exp(-alpha * kept));
        return g * s * (1 + alpha * kept * (1 - s));
    }

    @Override
    public void value(float[] x, float[] y, int n) {
        float[] s = new float[n];
        sigmoid(x, s, n);
        for (int i = 0; i < n; i++) {
            y[i] = x[i] * s[i];
        }
    }

    @Override
    public void gradient(float[] g, float[] kept, float[] dx, int n) {
        sigmoid(kept, dx, n);
        for (int i = 0; i < n; i++) {
            dx[i] = g[i] * dx[i] * (1 + alpha * kept[i] * (1 - dx[i]));
        }
    }
}
