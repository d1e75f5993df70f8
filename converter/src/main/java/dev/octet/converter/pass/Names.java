package dev.octet.converter.pass;

import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Node;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** All value names of a model, subgraphs included, so that a new name neither clashes nor shadows. */
final class Names {
    private final Set<String> taken = new HashSet<>();

    static Names of(Graph graph) {
        Names names = new Names();
        names.addAll(graph);
        return names;
    }

    /** The names of a function's inputs, outputs and body. */
    static Names of(List<String> inputs, List<String> outputs, List<Node> nodes) {
        Names names = new Names();
        names.taken.addAll(inputs);
        names.taken.addAll(outputs);
        nodes.forEach(names::addAll);
        return names;
    }

    private void addAll(Graph graph) {
        taken.addAll(graph.initializers().keySet());
        graph.inputs().forEach(v -> taken.add(v.name()));
        graph.outputs().forEach(v -> taken.add(v.name()));
        graph.nodes().forEach(this::addAll);
    }

    private void addAll(Node n) {
        taken.addAll(n.inputs());
        taken.addAll(n.outputs());
        n.subgraphs().forEach(this::addAll);
    }

    /** {@code base}, or {@code base_1}, {@code base_2}... and from now on taken. */
    String fresh(String base) {
        String name = base;
        for (int i = 1; !taken.add(name); i++) {
            name = base + "_" + i;
        }
        return name;
    }
}
