package dev.octet.converter.plan;

import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.util.Map;

/** What a plan decides about. */
public enum LayerKind {
    /** {@code dev.octet.Linear}: a product with a constant 2-D weight. */
    LINEAR("Linear"),
    /**
     * {@code dev.octet.LayerNormalization}. Converted, it hands its output on in codes, quantised once for all Linears behind it; no number
     * of the norm itself is quantised.
     */
    LAYER_NORM("LayerNorm"),
    /** {@code dev.octet.RMSNormalization}; as {@link #LAYER_NORM}. */
    RMS_NORM("RMSNorm"),
    /**
     * {@code Gather} from a constant table; in INT8 symmetric integers with one F32 scale per row, {@code amax / 127}: a quarter of the size,
     * about 43 dB for normally distributed weights. Rows are gathered first and dequantised after, so that a step reads only the rows that it
     * uses. Not 8-bit floats, because ONNX's Gather does not take them. With DequantizeLinear before Gather, ONNX Runtime 1.30 dequantises the
     * whole table at each step (35 ms for 30,522 rows of 384 on two cores, against 0.3 ms), and E4M3 has 11 dB more noise.
     */
    EMBEDDING("Embedding"),
    /**
     * A convolution, transposed ones as well. In INT8 with one scale per output channel, its input quantised by its range in each run, as
     * {@code ConvInteger}; in FP8 the weight alone, with one scale per output channel, dequantised before each use.
     */
    CONV("Conv"),
    /**
     * One of the two products of attention, queries by keys and probabilities by values: a {@code MatMul} beside a {@code Softmax}. In INT8 both
     * operands are quantised by their ranges in each run; in FP8 by calibrated scales, but what a Softmax makes by 1 / 448: it lies between 0 and 1.
     */
    ATTENTION("Attention product"),
    /** A node with subgraphs (If, Loop, Scan): passes through with all that is in it. */
    CONTROL_FLOW("control flow");

    private final String label;

    LayerKind(String label) {
        this.label = label;
    }

    /**
     * What a converted layer of this kind is, for counts: {@code 36 of 36 Linear in FP8, 6 of 13 LayerNorm handing on FP8}.
     */
    public String convertedMeans(Plan plan) {
        Recipe recipe =
                plan.converted(this).stream().findFirst().map(plan::recipe).orElse(plan.recipe());
        return (isNorm() ? "handing on " : "in ") + recipe.weight().type().family();
    }

    /**
     * The recipes of a kind that is quantised only where a plan is asked to, by the number type that is asked for; empty for kinds that the recipe
     * of the plan decides about.
     */
    public Map<QuantType, Recipe> forms() {
        return switch (this) {
            case EMBEDDING -> Map.of(QuantType.INT8, Recipes.INT8_WEIGHT_ONLY);
            case CONV -> Map.of(QuantType.INT8, Recipes.INT8_DYNAMIC, QuantType.E4M3FN, Recipes.FP8_WEIGHT_ONLY);
            case ATTENTION -> Map.of(QuantType.INT8, Recipes.INT8_DYNAMIC, QuantType.E4M3FN, Recipes.FP8_PER_TENSOR);
            case LINEAR, LAYER_NORM, RMS_NORM, CONTROL_FLOW -> Map.of();
        };
    }

    /** Whether it is a normalisation, converted only where a quantised Linear reads its output. */
    boolean isNorm() {
        return this == LAYER_NORM || this == RMS_NORM;
    }

    /** The word for tables and reports. */
    public String label() {
        return label;
    }
}
