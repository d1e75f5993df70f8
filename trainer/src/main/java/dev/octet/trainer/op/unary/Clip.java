package dev.octet.trainer.op.unary;

import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;

/** x bounded by two constants; the gradient passes within the closed range, as in torch. NaN stays NaN and has no gradient. */
public record Clip(OperandType x, double lowest, double highest) implements UnaryOp {
    /** Reads ONNX Clip: bounds are inputs from opset 11 on, attributes before. */
    public static Clip read(OpSource source) {
        return new Clip(
                source.input(0),
                bound(source, 1, "min", Float.NEGATIVE_INFINITY),
                bound(source, 2, "max", Float.POSITIVE_INFINITY));
    }

    private static double bound(OpSource source, int input, String attribute, float none) {
        if (!source.has(input)) {
            return source.node().floatAttribute(attribute, none);
        }
        return source.number(input)
                .orElseThrow(() -> source.refusal(
                        "its bound '" + source.node().input(input) + "' is computed while the model runs",
                        "write it as Min and Max"));
    }

    @Override
    public String type() {
        return "Clip";
    }

    @Override
    public SavedForBackward kept() {
        return SavedForBackward.INPUT;
    }

    @Override
    public double value(double x) {
        double bounded = x < lowest ? lowest : x;
        return bounded > highest ? highest : bounded;
    }

    @Override
    public double gradient(double g, double kept) {
        return kept >= lowest && kept <= highest ? g : 0;
    }

    @Override
    public void value(float[] x, float[] y, int n) {
        float low = (float) lowest;
        float high = (float) highest;
        for (int i = 0; i < n; i++) {
            float bounded = x[i] < low ? low : x[i];
            y[i] = bounded > high ? high : bounded;
        }
    }

    @Override
    public void gradient(float[] g, float[] kept, float[] dx, int n) {
        float low = (float) lowest;
        float high = (float) highest;
        for (int i = 0; i < n; i++) {
            dx[i] = kept[i] >= low && kept[i] <= high ? g[i] : 0;
        }
    }
}
