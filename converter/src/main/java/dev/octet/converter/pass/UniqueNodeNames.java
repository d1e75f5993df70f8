package dev.octet.converter.pass;

import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * Gives every node of the main graph a name of its own, because plans, patterns and reports address nodes by name and ONNX does
 * not ask names to be unique or even there. Runs last; names that are unique already stay.
 */
public final class UniqueNodeNames implements Pass {
    /** Without options. */
    public UniqueNodeNames() {}

    @Override
    public String name() {
        return "unique-node-names";
    }

    @Override
    public GraphModel apply(GraphModel model, PassLog log) {
        Graph g = model.graph();
        Set<String> taken = new HashSet<>();
        List<Node> nodes = new ArrayList<>();
        boolean changed = false;
        for (Node n : g.nodes()) {
            String name = n.id();
            for (int i = 1; !taken.add(name); i++) {
                name = n.id() + "_" + i;
            }
            boolean same = name.equals(n.name());
            nodes.add(same ? n : n.withName(name));
            changed |= !same;
        }
        if (!changed) {
            return model;
        }
        return model.withGraph(new Graph(
                g.name(),
                nodes,
                g.initializers(),
                g.inputs(),
                g.outputs(),
                g.valueInfos(),
                g.doc(),
                g.metadata(),
                g.unknown()));
    }
}
