package dev.octet.converter.plan;

/** What a plan decides about. */
public enum LayerKind {
    /** {@code dev.octet.Linear}: a product with a constant 2-D weight. */
    LINEAR("Linear", "in FP8"),
    /**
     * {@code dev.octet.LayerNormalization}. Converted, it hands its output on in FP8, quantised once for all Linears behind it; no number of
     * the norm itself is FP8.
     */
    LAYER_NORM("LayerNorm", LayerKind.HANDING_ON),
    /** {@code dev.octet.RMSNormalization}; as {@link #LAYER_NORM}. */
    RMS_NORM("RMSNorm", LayerKind.HANDING_ON),
    /** {@code Gather} from a constant table: in {@link EmbeddingForm#INT8}, codes and one scale per row. */
    EMBEDDING("Embedding", "in INT8"),
    /** A convolution: no FP8 form yet, always kept. */
    CONV("Conv", "in FP8"),
    /** A node with subgraphs (If, Loop, Scan): passes through with all that is in it. */
    CONTROL_FLOW("control flow", "in FP8");

    private static final String HANDING_ON = "handing on FP8";

    private final String label;
    private final String converted;

    LayerKind(String label, String converted) {
        this.label = label;
        this.converted = converted;
    }

    /** What a converted layer of this kind is, for counts: {@code 36 of 36 Linear in FP8, 6 of 13 LayerNorm handing on FP8}. */
    public String convertedMeans() {
        return converted;
    }

    /** Whether it is a normalisation, converted only where an FP8 Linear reads its output. */
    boolean isNorm() {
        return this == LAYER_NORM || this == RMS_NORM;
    }

    /** The word for tables and reports. */
    public String label() {
        return label;
    }
}
