package dev.octet.formats.graph;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Nodes in topological order, with the graph's inputs, outputs and constants.
 *
 * <p>{@link GraphCheck} checks whether a graph is valid; the constructor does not, so that broken files can be diagnosed.
 *
 * @param initializers by name, in file order
 * @param valueInfos types of inner values where known, by name, in file order
 * @param unknown fields passed through untouched
 */
public record Graph(
        String name,
        List<Node> nodes,
        Map<String, Initializer> initializers,
        List<ValueInfo> inputs,
        List<ValueInfo> outputs,
        Map<String, ValueInfo> valueInfos,
        String doc,
        Map<String, String> metadata,
        Bytes unknown) {
    public Graph {
        nodes = List.copyOf(nodes);
        initializers = Ordered.copyOf(initializers);
        inputs = List.copyOf(inputs);
        outputs = List.copyOf(outputs);
        valueInfos = Ordered.copyOf(valueInfos);
        metadata = Ordered.copyOf(metadata);
    }

    /** A graph without metadata or value infos. */
    public static Graph of(
            String name,
            List<Node> nodes,
            List<Initializer> initializers,
            List<ValueInfo> inputs,
            List<ValueInfo> outputs) {
        Map<String, Initializer> map = new LinkedHashMap<>();
        initializers.forEach(i -> map.put(i.name(), i));
        return new Graph(name, nodes, map, inputs, outputs, Map.of(), "", Map.of(), Bytes.EMPTY);
    }

    /** Names that this graph and its nested graphs use but do not define: values of the enclosing graph. */
    public Set<String> captures() {
        Set<String> captured = new LinkedHashSet<>();
        List<Scope> open = new ArrayList<>();
        open.add(new Scope(this, null));
        while (!open.isEmpty()) {
            Scope scope = open.removeLast();
            scope.uses().filter(s -> !scope.defines(s)).forEach(captured::add);
            scope.inner(open::add);
        }
        return captured;
    }

    /** Names that this graph defines, without nested graphs: inputs, constants, outputs of nodes. */
    public Set<String> definitions() {
        Set<String> defined = new HashSet<>(initializers.keySet());
        inputs.forEach(i -> defined.add(i.name()));
        nodes.forEach(n -> defined.addAll(n.outputs()));
        defined.remove("");
        return defined;
    }

    /** Inputs that the caller must feed, that is, without an initializer as default (IR 3 lists every initializer as an input). */
    public List<ValueInfo> requiredInputs() {
        return inputs.stream().filter(i -> !initializers.containsKey(i.name())).toList();
    }

    /** A copy with these value infos. */
    public Graph withValueInfos(Map<String, ValueInfo> newValueInfos) {
        return new Graph(name, nodes, initializers, inputs, outputs, newValueInfos, doc, metadata, unknown);
    }

    /** A copy with this metadata. */
    public Graph withMetadata(Map<String, String> newMetadata) {
        return new Graph(name, nodes, initializers, inputs, outputs, valueInfos, doc, newMetadata, unknown);
    }
}
