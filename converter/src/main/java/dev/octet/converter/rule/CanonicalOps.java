package dev.octet.converter.rule;

import dev.octet.formats.graph.Node;

/** Names of the canonical operators, all in the domain {@link Node#OCTET_DOMAIN}, version {@link #VERSION}. */
public final class CanonicalOps {
    /**
     * {@code Linear(x, w, b?)}, attribute {@code transB}: y = x·w (+ b) over the last axis of x, of any rank at least 1; w is a
     * 2-D constant, [in, out] with transB = 0 and [out, in] with transB = 1; b is [out].
     */
    public static final String LINEAR = "Linear";
    /** {@code LayerNormalization(x, weight, bias?)}, attributes {@code axis} (always -1), {@code epsilon}: as ONNX opset 17. */
    public static final String LAYER_NORM = "LayerNormalization";
    /** {@code RMSNormalization(x, weight)}, attributes {@code axis} (always -1), {@code epsilon}: as ONNX opset 23. */
    public static final String RMS_NORM = "RMSNormalization";
    /** {@code Gelu(x)}, attribute {@code approximate}: {@code none} or {@code tanh}: as ONNX opset 20. */
    public static final String GELU = "Gelu";

    /** Version of the domain that models import. */
    public static final long VERSION = 1;

    private CanonicalOps() {}
}
