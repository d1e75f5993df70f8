package dev.octet.trainer.op.unary;

import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;

/** {@code y = alpha·x + beta} between 0 and 1, bounded by them; no gradient at the bounds, as in torch. */
public record HardSigmoid(OperandType x, float alpha, float beta) implements UnaryOp {
    /** Reads ONNX HardSigmoid. */
    public static HardSigmoid read(OpSource source) {
        return new HardSigmoid(
                source.input(0),
                source.node().floatAttribute("alpha", 0.2f),
                source.node().floatAttribute("beta", 0.5f));
    }

    @Override
    public String type() {
        return "HardSigmoid";
    }

    @Override
    public SavedForBackward kept() {
        return SavedForBackward.INPUT;
    }

    @Override
    public double value(double x) {
        return Math.max(0, Math.min(1, alpha * x + beta));
    }

    @Override
    public double gradient(double g, double kept) {
        double line = alpha * kept + beta;
        return line > 0 && line < 1 ? alpha * g : 0;
    }

    @Override
    public void value(float[] x, float[] y, int n) {
        for (int i = 0; i < n; i++) {
            y[i] = Math.max(0, Math.min(1, alpha * x[i] + beta));
        }
    }

    @Override
    public void gradient(float[] g, float[] kept, float[] dx, int n) {
        for (int i = 0; i < n; i++) {
            float line = alpha * kept[i] + beta;
            dx[i] = line > 0 && line < 1 ? alpha * g[i] : 0;
        }
    }
}
