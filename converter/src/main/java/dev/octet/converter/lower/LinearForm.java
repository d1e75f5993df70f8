package dev.octet.converter.lower;

import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;

/** How one target spells the quantisation of an activation and an FP8 Linear. Stateful: one instance per graph being lowered. */
sealed interface LinearForm permits FlattenGemmForm, MatMulForm {
    /**
     * Puts nodes before {@code anchor} that quantise {@code x}; later Linears refer to them by {@code codes}.
     *
     * @param scale name of the scalar scale constant
     */
    void quantize(Node anchor, String x, String scale, String codes, DType format);

    /** Replaces a {@code QuantizedLinear} node. */
    void linear(Node fp8Linear);
}
