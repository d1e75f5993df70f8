package dev.octet.converter.inspect;

import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * A table of I8 codes, [V, D], with one F32 scale per row, [V, 1], of which rows are gathered and then dequantised: {@code
 * Mul(Cast(Gather(codes, ids)), Gather(scales, ids))}, as {@code octet quantize --embeddings int8} writes it.
 *
 * @param codes name of the constant
 * @param scales name of the constant
 */
public record GatheredTable(String codes, String scales) {
    /** All tables of a graph by the names of their codes. */
    public static Map<String, GatheredTable> of(Graph graph) {
        Map<String, Node> producers = new HashMap<>();
        graph.nodes().forEach(n -> n.outputs().forEach(o -> producers.put(o, n)));
        Map<String, GatheredTable> tables = new HashMap<>();
        for (Node mul : graph.nodes()) {
            Node cast = mul.is("Mul") ? producers.get(mul.input(0)) : null;
            Node codes = cast != null && cast.is("Cast") ? producers.get(cast.input(0)) : null;
            Node scales = codes == null ? null : producers.get(mul.input(1));
            if (codes != null && scales != null && gathersAlike(codes, scales)) {
                tables.putIfAbsent(codes.input(0), new GatheredTable(codes.input(0), scales.input(0)));
            }
        }
        tables.values().removeIf(t -> !t.fits(graph));
        return tables;
    }

    private static boolean gathersAlike(Node codes, Node scales) {
        List<Node> both = new ArrayList<>(List.of(codes, scales));
        return both.stream().allMatch(n -> n.is("Gather") && n.intAttribute("axis", 0) == 0)
                && codes.input(1).equals(scales.input(1));
    }

    private boolean fits(Graph graph) {
        Optional<Tensor> c = tensor(graph, codes);
        Optional<Tensor> s = tensor(graph, scales);
        return c.isPresent()
                && s.isPresent()
                && c.get().dtype() == DType.I8
                && s.get().dtype() == DType.F32
                && c.get().shape().rank() == 2
                && s.get().shape().rank() == 2
                && s.get().shape().dim(0) == c.get().shape().dim(0)
                && s.get().shape().dim(1) == 1;
    }

    private static Optional<Tensor> tensor(Graph graph, String name) {
        return Optional.ofNullable(graph.initializers().get(name)).flatMap(Initializer::tensor);
    }
}
