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

    /**
     * {@code ExpertRows(x, chosen)}, attributes {@code expert}, {@code choices}: of x [tokens, size] the rows whose token chose the expert, in the
     * order of the tokens; chosen is I64 [tokens·choices]. Outputs: the rows [n, size], and I64 [n], the place of each choice in {@code chosen}.
     * With {@link #DROPPING} a choice may be -1, which is no expert; its weight must be 0.
     */
    public static final String EXPERT_ROWS = "ExpertRows";
    /** Attribute of {@link #EXPERT_ROWS}, 1 where experts have a capacity: not all choices come to one. */
    public static final String DROPPING = "dropping";
    /**
     * {@code ExpertSum(weights, rows, places, rows, places, ...)}, attribute {@code size}: what experts made of their rows, [n, size] each, added up
     * by token in the order of its choices, weighted; weights is [..., choices], the result [..., size]. A place
     * occurs once, or not at all where a token is left out.
     */
    public static final String EXPERT_SUM = "ExpertSum";
    /** The trainer's form of all {@link #EXPERT_ROWS} of a mixture: their rows one expert after another. */
    public static final String EXPERT_DISPATCH = "ExpertDispatch";
    /** The trainer's form of a {@link #LINEAR} of each expert, over such rows. */
    public static final String GROUPED_LINEAR = "GroupedLinear";
    /** The trainer's form of {@link #EXPERT_SUM} over such rows. */
    public static final String EXPERT_COMBINE = "ExpertCombine";

    /** Version of the domain that models import. */
    public static final long VERSION = 1;

    private CanonicalOps() {}
}
