package dev.octet.converter.pass;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import java.util.HashSet;
import java.util.Set;

/**
 * Puts the main graph's nodes into an order in which each follows what it reads, and refuses graphs that have none: those with
 * cycles, with two makers of one value, or with readers of a value that nothing makes. The other passes rely on it.
 */
public final class GraphOrder implements Pass {
    @Override
    public String name() {
        return "graph-order";
    }

    /** @throws MalformedModelException when a value is made twice or never, or depends on itself */
    @Override
    public GraphModel apply(GraphModel model, PassLog log) {
        Graph graph = model.graph();
        Set<String> made = new HashSet<>(graph.initializers().keySet());
        graph.inputs().forEach(v -> made.add(v.name()));
        for (Node n : graph.nodes()) {
            for (String value : n.outputs()) {
                if (!value.isEmpty() && !made.add(value)) {
                    throw malformed("value '" + value + "' is made twice", "node " + n.id());
                }
            }
        }
        for (Node n : graph.nodes()) {
            for (String value : n.uses()) {
                if (!made.contains(value)) {
                    throw malformed("value '" + value + "' is read but nothing makes it", "node " + n.id());
                }
            }
        }
        for (ValueInfo output : graph.outputs()) {
            if (!made.contains(output.name())) {
                throw malformed("output '" + output.name() + "' is made by nothing", "graph " + graph.name());
            }
        }
        return isOrdered(graph) ? model : model.withGraph(sorted(graph));
    }

    private static boolean isOrdered(Graph graph) {
        Set<String> made = new HashSet<>(graph.initializers().keySet());
        graph.inputs().forEach(v -> made.add(v.name()));
        for (Node n : graph.nodes()) {
            if (!made.containsAll(n.uses())) {
                return false;
            }
            made.addAll(n.outputs());
        }
        return true;
    }

    private static Graph sorted(Graph graph) {
        try {
            return GraphEdit.of(graph).build();
        } catch (IllegalStateException cycle) {
            throw new MalformedModelException(
                    String.valueOf(cycle.getMessage()),
                    "graph " + graph.name(),
                    "a graph cannot compute a value from itself: export the model again",
                    cycle);
        }
    }

    private static MalformedModelException malformed(String what, String where) {
        return new MalformedModelException(what, where, "the file was edited or cut off: export the model again");
    }
}
