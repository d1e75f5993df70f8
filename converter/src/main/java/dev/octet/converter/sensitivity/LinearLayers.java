package dev.octet.converter.sensitivity;

import dev.octet.converter.checkpoint.LinearNames;
import dev.octet.converter.plan.Decision;
import dev.octet.converter.plan.LayerKind;
import dev.octet.converter.plan.Plan;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;

/** The Linears of a canonical graph that a plan would quantise, one for each weight, in the graph's order. */
public final class LinearLayers {
    private LinearLayers() {}

    /**
     * Finds them.
     *
     * @param graph canonical
     * @param plan of the same graph
     */
    public static List<LinearLayer> of(Graph graph, Plan plan) {
        Set<String> planned = new LinkedHashSet<>();
        plan.converted(LayerKind.LINEAR).stream().map(Decision::node).forEach(planned::add);
        Map<String, List<Node>> byWeight = new LinkedHashMap<>();
        for (Node n : graph.nodes()) {
            if (planned.contains(n.id())) {
                byWeight.computeIfAbsent(n.input(1), _ -> new ArrayList<>()).add(n);
            }
        }
        List<LinearLayer> layers = new ArrayList<>();
        byWeight.forEach((weight, nodes) -> layers.add(layer(graph, weight, nodes)));
        return List.copyOf(layers);
    }

    private static LinearLayer layer(Graph graph, String weight, List<Node> nodes) {
        Tensor tensor = Objects.requireNonNull(graph.initializers().get(weight))
                .tensor()
                .orElseThrow();
        boolean transposed = nodes.getFirst().intAttribute("transB", 0) == 0;
        Shape stored = tensor.shape();
        return new LinearLayer(
                weight,
                nodes.stream().map(Node::id).toList(),
                nodes.stream().map(n -> n.input(0)).distinct().toList(),
                transposed ? Shape.of(stored.dim(1), stored.dim(0)) : stored,
                transposed,
                tensor.dtype().bits(),
                LinearNames.fusedGroup(weight).orElse(weight));
    }
}
