package dev.octet.formats.graph;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;

/**
 * The only way to get a changed {@link Graph}: look up producers and consumers, replace, insert, remove, then {@link #build()}.
 *
 * <p>Every edit is O(uses it touches); {@code build()} is linear and orders nodes so that each follows its producers, keeping
 * the given order wherever it is legal. Not thread-safe. Nodes are told apart by identity, so an edited node must be the very
 * object that {@link #nodes()} or {@link #producer} returned last.
 */
public final class GraphEdit {
    private final Graph original;
    /** Live nodes in order of their positions; insertions get positions between their neighbours at build time. */
    private final IdentityHashMap<Node, Position> positions = new IdentityHashMap<>();

    private final Map<String, Node> producers = new HashMap<>();
    private final Map<String, Set<Node>> consumers = new HashMap<>();
    private final Map<String, Initializer> initializers;
    private final Map<String, ValueInfo> valueInfos;
    private final List<ValueInfo> inputs;
    private final List<ValueInfo> outputs;
    private final Set<String> names = new HashSet<>();
    private long nextMinor;

    /** {@code major}: place in the original list; {@code minor}: order of insertion there (the original node has minor Long.MAX). */
    private record Position(int major, long minor) implements Comparable<Position> {
        @Override
        public int compareTo(Position o) {
            return major != o.major ? Integer.compare(major, o.major) : Long.compare(minor, o.minor);
        }
    }

    private GraphEdit(Graph g) {
        original = g;
        initializers = new LinkedHashMap<>(g.initializers());
        valueInfos = new LinkedHashMap<>(g.valueInfos());
        inputs = new ArrayList<>(g.inputs());
        outputs = new ArrayList<>(g.outputs());
        names.addAll(initializers.keySet());
        names.addAll(valueInfos.keySet());
        inputs.forEach(i -> names.add(i.name()));
        outputs.forEach(o -> names.add(o.name()));
        int i = 0;
        for (Node n : g.nodes()) {
            add(n, new Position(i++, Long.MAX_VALUE));
        }
    }

    public static GraphEdit of(Graph g) {
        return new GraphEdit(g);
    }

    private void add(Node n, Position p) {
        if (positions.put(n, p) != null) {
            throw new IllegalArgumentException("node is in the graph already: " + n);
        }
        for (String o : n.outputs()) {
            if (!o.isEmpty()) {
                producers.put(o, n);
                names.add(o);
            }
        }
        for (String u : n.uses()) {
            consumers
                    .computeIfAbsent(u, k -> Collections.newSetFromMap(new IdentityHashMap<>()))
                    .add(n);
            names.add(u);
        }
    }

    private Position drop(Node n) {
        Position p = positions.remove(n);
        if (p == null) {
            throw new IllegalArgumentException("node is not in the graph (edited before?): " + n);
        }
        n.outputs().forEach(o -> producers.remove(o, n));
        for (String u : n.uses()) {
            Set<Node> set = consumers.get(u);
            if (set != null) {
                set.remove(n);
            }
        }
        return p;
    }

    /** Live nodes in their present order; a copy, so editing while iterating is fine (skip nodes that {@link #contains} denies). */
    public List<Node> nodes() {
        List<Node> list = new ArrayList<>(positions.keySet());
        list.sort((a, b) -> at(a).compareTo(at(b)));
        return list;
    }

    private Position at(Node n) {
        Position p = positions.get(n);
        if (p == null) {
            throw new IllegalStateException("node is not in the graph: " + n);
        }
        return p;
    }

    public boolean contains(Node n) {
        return positions.containsKey(n);
    }

    /** The node that computes {@code value}; null for inputs, constants and unknown names. */
    public @Nullable Node producer(String value) {
        return producers.get(value);
    }

    /** Nodes that read {@code value}, directly or from a subgraph, in order. Being a graph output is not among them. */
    public List<Node> consumers(String value) {
        List<Node> list = new ArrayList<>(consumers.getOrDefault(value, Set.of()));
        list.sort((a, b) -> at(a).compareTo(at(b)));
        return list;
    }

    /** Whether {@code value} is an output of the graph. */
    public boolean isOutput(String value) {
        return outputs.stream().anyMatch(o -> o.name().equals(value));
    }

    /** Whether {@code value} is an input of the graph (one with an initializer too). */
    public boolean isInput(String value) {
        return inputs.stream().anyMatch(o -> o.name().equals(value));
    }

    /** Whether exactly one node reads {@code value} and the graph does not output it, so the value may be fused away. */
    public boolean hasSingleUse(String value) {
        return consumers.getOrDefault(value, Set.of()).size() == 1 && !isOutput(value);
    }

    public @Nullable Initializer initializer(String name) {
        return initializers.get(name);
    }

    /** Names of all constants, in order. */
    public List<String> initializerNames() {
        return List.copyOf(initializers.keySet());
    }

    /** Adds or replaces a constant. */
    public void putInitializer(Initializer i) {
        initializers.put(i.name(), i);
        names.add(i.name());
    }

    /** Removes a constant, and the graph input of the same name that IR 3 files list. */
    public void removeInitializer(String name) {
        initializers.remove(name);
        inputs.removeIf(i -> i.name().equals(name));
    }

    /** Type of a value where known: inner value, input or output. */
    public @Nullable ValueType type(String value) {
        ValueInfo info = valueInfos.get(value);
        if (info != null && info.type() != null) {
            return info.type();
        }
        for (List<ValueInfo> list : List.of(inputs, outputs)) {
            for (ValueInfo v : list) {
                if (v.name().equals(value) && v.type() != null) {
                    return v.type();
                }
            }
        }
        return null;
    }

    /** Records the type of an inner value. */
    public void putValueInfo(ValueInfo info) {
        valueInfos.put(info.name(), info);
        names.add(info.name());
    }

    /** Replaces the declared inputs (names must stay those that nodes read). */
    public void setInputs(Collection<ValueInfo> newInputs) {
        inputs.clear();
        inputs.addAll(newInputs);
    }

    /** Replaces the declared outputs. */
    public void setOutputs(Collection<ValueInfo> newOutputs) {
        outputs.clear();
        outputs.addAll(newOutputs);
        newOutputs.forEach(o -> names.add(o.name()));
    }

    public List<ValueInfo> outputs() {
        return List.copyOf(outputs);
    }

    public List<ValueInfo> inputs() {
        return List.copyOf(inputs);
    }

    /** A value or constant name that is not taken: {@code base}, or {@code base_1}, {@code base_2}... The name is reserved. */
    public String freshName(String base) {
        String name = base;
        for (int i = 1; !names.add(name); i++) {
            name = base + "_" + i;
        }
        return name;
    }

    /** Puts nodes immediately before {@code anchor}, in the given order. */
    public void insertBefore(Node anchor, Node... nodes) {
        int major = at(anchor).major();
        boolean anchorInserted = at(anchor).minor() != Long.MAX_VALUE;
        for (Node n : nodes) {
            // An inserted anchor gets a neighbour with a later minor; build() restores the order by data flow.
            add(n, new Position(major, anchorInserted ? at(anchor).minor() : nextMinor++));
        }
    }

    /** Adds nodes at the end. */
    public void append(Node... nodes) {
        for (Node n : nodes) {
            add(n, new Position(Integer.MAX_VALUE, nextMinor++));
        }
    }

    /** Replaces {@code old} by {@code nodes} at its place; removing a node is replacing it by none. */
    public void replace(Node old, Node... nodes) {
        Position p = drop(old);
        for (Node n : nodes) {
            add(n, new Position(p.major(), nextMinor++));
        }
    }

    /** Removes a node; its outputs must have no users left when the graph is built. */
    public void remove(Node n) {
        drop(n);
    }

    /** Lets every reader of {@code from} read {@code to} instead, subgraphs included. Graph outputs keep their names. */
    public void redirect(String from, String to) {
        for (Node n : consumers(from)) {
            Position p = drop(n);
            add(renameUses(n, s -> s.equals(from) ? to : s), p);
        }
    }

    /** The node with every name it reads (inputs, and captures of its subgraphs) mapped. */
    static Node renameUses(Node n, UnaryOperator<String> map) {
        Node renamed = n.withInputs(
                n.inputs().stream().map(s -> s.isEmpty() ? s : map.apply(s)).toList());
        if (n.subgraphs().isEmpty()) {
            return renamed;
        }
        Map<String, Attribute> attributes = new LinkedHashMap<>();
        n.attributes().forEach((k, a) -> {
            Attribute.Value v = a.value();
            if (v instanceof Attribute.OfGraph s) {
                v = new Attribute.OfGraph(renameCaptures(s.value(), map));
            } else if (v instanceof Attribute.OfGraphs s) {
                v = new Attribute.OfGraphs(
                        s.values().stream().map(g -> renameCaptures(g, map)).toList());
            }
            attributes.put(k, new Attribute(a.name(), v, a.doc(), a.unknown()));
        });
        return renamed.withAttributes(attributes);
    }

    private static Graph renameCaptures(Graph g, UnaryOperator<String> map) {
        Set<String> captured = g.captures();
        UnaryOperator<String> inner = s -> captured.contains(s) ? map.apply(s) : s;
        return new Graph(
                g.name(),
                g.nodes().stream().map(n -> renameUses(n, inner)).toList(),
                g.initializers(),
                g.inputs(),
                g.outputs().stream().map(o -> o.withName(inner.apply(o.name()))).toList(),
                g.valueInfos(),
                g.doc(),
                g.metadata(),
                g.unknown());
    }

    /**
     * Removes nodes whose outputs nobody needs, and constants that nobody reads.
     *
     * @return how many nodes went
     */
    public int removeUnreachable() {
        Set<String> needed = new HashSet<>();
        outputs.forEach(o -> needed.add(o.name()));
        List<Node> order = sorted();
        int removed = 0;
        for (Node n : order.reversed()) {
            if (n.outputs().stream().anyMatch(needed::contains)) {
                needed.addAll(n.uses());
            } else {
                drop(n);
                removed++;
            }
        }
        for (String name : initializerNames()) {
            if (!needed.contains(name)) {
                removeInitializer(name);
            }
        }
        valueInfos.keySet().removeIf(v -> !needed.contains(v) && !producers.containsKey(v));
        return removed;
    }

    /**
     * The changed graph.
     *
     * @throws IllegalStateException when the edits made a cycle
     */
    public Graph build() {
        valueInfos.keySet().removeIf(v -> !producers.containsKey(v) && !initializers.containsKey(v));
        return new Graph(
                original.name(),
                sorted(),
                initializers,
                inputs,
                outputs,
                valueInfos,
                original.doc(),
                original.metadata(),
                original.unknown());
    }

    /** Depth-first over producers in present order: stable where the order is legal already. Iterative, for deep graphs. */
    private List<Node> sorted() {
        IdentityHashMap<Node, Boolean> state = new IdentityHashMap<>(); // absent: new, false: open, true: placed
        List<Node> result = new ArrayList<>(positions.size());
        List<Node> stack = new ArrayList<>();
        for (Node root : nodes()) {
            stack.add(root);
            while (!stack.isEmpty()) {
                Node n = stack.getLast();
                Boolean s = state.get(n);
                if (s == null) {
                    state.put(n, false);
                    List<Node> before = new ArrayList<>();
                    for (String u : n.uses()) {
                        Node p = producers.get(u);
                        if (p == null) {
                            continue;
                        }
                        Boolean ps = state.get(p);
                        if (ps == null) {
                            before.add(p);
                        } else if (!ps) {
                            throw new IllegalStateException("cycle through value '" + u + "' at node " + n.id());
                        }
                    }
                    stack.addAll(before.reversed());
                } else {
                    stack.removeLast();
                    if (!s) {
                        state.put(n, true);
                        result.add(n);
                    }
                }
            }
        }
        return result;
    }
}
