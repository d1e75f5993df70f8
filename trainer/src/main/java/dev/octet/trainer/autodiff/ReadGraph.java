package dev.octet.trainer.autodiff;

import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OperandType;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/** The nodes of a graph that a program needs, each read as an operator, in the types that the model was stored in. */
public final class ReadGraph {
    private final List<Node> nodes;
    private final IdentityHashMap<Node, Op> ops = new IdentityHashMap<>();
    private final Map<String, OperandType> types = new HashMap<>();

    private ReadGraph(NeededGraph graph) {
        nodes = List.copyOf(graph.nodes());
        graph.read((node, op, operands) -> {
            ops.put(node, op);
            types.putAll(operands);
        });
        types.remove(""); // outputs that a node has not
    }

    /**
     * Reads what a program needs of a graph.
     *
     * @throws dev.octet.formats.error.UnsupportedModelException as {@link Autodiff#program}
     * @throws dev.octet.formats.error.InvalidOptionException as there
     */
    public static ReadGraph of(GraphModel model, ProgramOptions options) {
        return new ReadGraph(NeededGraph.of(model, options));
    }

    /** The nodes, in graph order. */
    public List<Node> nodes() {
        return nodes;
    }

    /** The operator of a node. */
    public Op op(Node node) {
        return Objects.requireNonNull(ops.get(node), node.id());
    }

    /** Type of an input, a constant or what a node computes. */
    public OperandType type(String value) {
        return Objects.requireNonNull(types.get(value), value);
    }

    /** The same; null for a value that no node reads or computes. */
    public @Nullable OperandType typeOrNull(String value) {
        return types.get(value);
    }
}
