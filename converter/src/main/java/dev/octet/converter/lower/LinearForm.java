package dev.octet.converter.lower;

import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;

/** How one target spells the quantisation of an activation and a quantised Linear. Stateful: one instance per graph being lowered. */
sealed interface LinearForm permits FlattenGemmForm, MatMulForm {
    /**
     * Codes to be made.
     *
     * @param name of the codes
     * @param scale name of the scalar scale constant
     * @param zero name of the scalar zero point, which has the type of the codes; empty where zero has the code 0
     * @param type of the codes
     */
    record Codes(String name, String scale, String zero, DType type) {}

    /** Puts nodes before {@code anchor} that quantise {@code x}; later Linears refer to them by the name of the codes. */
    void quantize(Node anchor, String x, Codes codes);

    /** Replaces a {@code QuantizedLinear} node. */
    void linear(Node quantizedLinear);
}
