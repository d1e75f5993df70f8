package dev.octet.formats.graph;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.Arena;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** Short spellings of graphs for tests. */
final class GraphSketch {
    private GraphSketch() {}

    /** {@code op(inputs) -> outputs}; the node is named after its first output. */
    static Node node(String op, String inputs, String outputs, Attribute... attributes) {
        return Node.of("n_" + names(outputs).getFirst(), op, names(inputs), names(outputs), attributes);
    }

    static List<String> names(String list) {
        return list.isEmpty() ? List.of() : Arrays.asList(list.split(" "));
    }

    static List<ValueInfo> floats(String list) {
        return names(list).stream()
                .map(n -> new ValueInfo(n, new ValueType.TensorType(DType.F32, List.of())))
                .toList();
    }

    static Initializer constant(String name) {
        return Initializer.of(Tensor.ofFloats(Arena.ofAuto(), name, Shape.of(1), 1));
    }

    static Graph graph(String inputs, String outputs, Node... nodes) {
        return Graph.of("g", List.of(nodes), List.of(), floats(inputs), floats(outputs));
    }

    static Graph graph(List<Initializer> constants, String inputs, String outputs, Node... nodes) {
        return Graph.of("g", List.of(nodes), constants, floats(inputs), floats(outputs));
    }

    static Attribute body(String name, Graph g) {
        return new Attribute(name, new Attribute.OfGraph(g));
    }

    static GraphModel model(Graph g) {
        return GraphModel.of(g, 8, 17);
    }

    static Function function(String name, String inputs, String outputs, Node... nodes) {
        return new Function(
                "f",
                name,
                "",
                names(inputs),
                names(outputs),
                List.of(),
                List.of(),
                List.of(nodes),
                Map.of("", 17L, "f", 1L),
                Map.of(),
                "",
                Map.of(),
                Bytes.EMPTY);
    }

    static List<String> ids(List<Node> nodes) {
        return nodes.stream().map(Node::id).toList();
    }
}
