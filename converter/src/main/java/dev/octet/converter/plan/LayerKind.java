package dev.octet.converter.plan;

/** What a plan decides about. */
public enum LayerKind {
    /** {@code dev.octet.Linear}: a product with a constant 2-D weight. */
    LINEAR("Linear"),
    /** {@code dev.octet.LayerNormalization}. */
    LAYER_NORM("LayerNorm"),
    /** {@code dev.octet.RMSNormalization}. */
    RMS_NORM("RMSNorm"),
    /** A convolution: no FP8 form yet, always kept. */
    CONV("Conv"),
    /** A node with subgraphs (If, Loop, Scan): passes through with all that is in it. */
    CONTROL_FLOW("control flow");

    private final String label;

    LayerKind(String label) {
        this.label = label;
    }

    /** The word for tables and reports. */
    public String label() {
        return label;
    }
}
