package dev.octet.converter;

import dev.octet.converter.inspect.WeightOperator;
import dev.octet.converter.rule.CanonicalOps;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The kinds of constants of a graph, by which the size of a model is told apart.
 *
 * @param linears weights of Linears
 * @param embeddings tables that rows are gathered from
 * @param convolutions weights of convolutions
 */
record GraphParts(Set<String> linears, Set<String> embeddings, Set<String> convolutions) {
    private static final String LINEARS = "Linears";
    private static final String EMBEDDINGS = "embeddings";
    private static final String CONVOLUTIONS = "convolutions";
    private static final String SCALES = "scales and zero points";
    private static final String OTHERS = "biases, norms and others";

    /** All kinds, largest first in most models. */
    static final List<String> NAMES = List.of(LINEARS, EMBEDDINGS, CONVOLUTIONS, SCALES, OTHERS);

    /** The kinds in a canonical graph; the converted one uses the same names, perhaps with an ending. */
    static GraphParts of(Graph canonical) {
        Set<String> linears = new HashSet<>();
        Set<String> embeddings = new HashSet<>();
        Set<String> convolutions = new HashSet<>();
        for (Node node : canonical.nodes()) {
            if (node.isOctet(CanonicalOps.LINEAR)) {
                linears.add(node.input(1));
            } else if (node.is("Gather") && node.intAttribute("axis", 0) == 0) {
                embeddings.add(node.input(0));
            } else if (WeightOperator.of(node)
                    .filter(o -> o.kind() == WeightOperator.Kind.CONVOLUTION)
                    .isPresent()) {
                convolutions.add(node.input(1));
            }
        }
        return new GraphParts(linears, embeddings, convolutions);
    }

    /** The bytes of each kind of constant. */
    Map<String, Long> bytes(Graph graph) {
        Map<String, Long> bytes = new HashMap<>();
        graph.initializers()
                .forEach((name, constant) -> constant.tensor()
                        .ifPresent(t -> bytes.merge(kind(name, t), t.spec().byteSize(), Long::sum)));
        return bytes;
    }

    private String kind(String name, Tensor tensor) {
        if (name.endsWith(".weight_scale") || name.endsWith(".input_scale") || name.startsWith("fp8_zero")) {
            return SCALES;
        }
        if (tensor.shape().rank() > 2 && convolutions.contains(name)) {
            return CONVOLUTIONS;
        }
        boolean matrix = tensor.shape().rank() == 2;
        if (matrix && embeddings.contains(name) && (tensor.dtype().isFloat() || tensor.dtype() == DType.I8)) {
            return EMBEDDINGS;
        }
        String own = name.endsWith("_t") ? name.substring(0, name.length() - 2) : name;
        String stem = own.endsWith("_fp8") ? own.substring(0, own.length() - "_fp8".length()) : own;
        return matrix && (linears.contains(own) || linears.contains(stem)) ? LINEARS : OTHERS;
    }
}
