package dev.octet.converter.plan;

import dev.octet.quant.recipe.Recipe;

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
    /** {@code Gather} from a constant table: in {@link EmbeddingForm#INT8}, codes and one scale per row. */
    EMBEDDING("Embedding"),
    /** A convolution: no quantised form yet, always kept. */
    CONV("Conv"),
    /** A node with subgraphs (If, Loop, Scan): passes through with all that is in it. */
    CONTROL_FLOW("control flow");

    private final String label;

    LayerKind(String label) {
        this.label = label;
    }

    /**
     * What a converted layer of this kind is, for counts: {@code 36 of 36 Linear in FP8, 6 of 13 LayerNorm handing on FP8}.
     *
     * @param recipe of the plan
     */
    public String convertedMeans(Recipe recipe) {
        String family = recipe.weight().type().family();
        return isNorm() ? "handing on " + family : this == EMBEDDING ? "in INT8" : "in " + family;
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
