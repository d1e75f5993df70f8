package dev.octet.trainer.autodiff;

import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OperandType;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * The nodes of a graph that a program needs, each read as an operator, in the types that the model was stored in.
 *
 * @param nodes in graph order
 * @param ops the operator of each node, by identity
 * @param types of inputs, constants and values that nodes compute
 */
public record ReadGraph(List<Node> nodes, Map<Node, Op> ops, Map<String, OperandType> types) {
    public ReadGraph {
        nodes = List.copyOf(nodes);
        IdentityHashMap<Node, Op> read = new IdentityHashMap<>(ops);
        ops = Collections.unmodifiableMap(read);
        types = Collections.unmodifiableMap(new LinkedHashMap<>(types));
    }

    /**
     * Reads what a program needs of a graph.
     *
     * @throws dev.octet.formats.error.UnsupportedModelException as {@link Autodiff#program}
     * @throws dev.octet.formats.error.InvalidOptionException as there
     */
    public static ReadGraph of(GraphModel model, ProgramOptions options) {
        NeededGraph graph = NeededGraph.of(model, options);
        Map<String, OperandType> types = new LinkedHashMap<>();
        Map<Node, Op> ops = new IdentityHashMap<>();
        graph.read((node, op, made) -> {
            ops.put(node, op);
            types.putAll(made);
        });
        types.remove(""); // outputs that a node has not
        return new ReadGraph(graph.nodes(), ops, types);
    }

    /** The operator of a node. */
    public Op op(Node node) {
        return Objects.requireNonNull(ops.get(node), node.id());
    }
}
