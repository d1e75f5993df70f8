package dev.octet.formats.graph;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;

/**
 * Changes a {@link Graph}: look up producers and consumers, replace, insert, remove, then {@link #build()}.
 *
 * <p>An edit takes time proportional to the uses it touches; {@code build()} is linear and sorts nodes topologically, keeping the given
 * order where it is valid. Not thread-safe. Nodes are compared by identity, so an edited node must be the object that {@link #nodes()} or
 * {@link #producer} returned last.
 */
public final class GraphEdit {
    private final Graph original;
    private final IdentityHashMap<Node, Entry> entries = new IdentityHashMap<>();
    /** The ring of live nodes in order: {@code ends.next} is the first, {@code ends.before} the last. */
    private final Entry ends = new Entry();

    private final Map<String, Node> producers = new HashMap<>();
    private final Map<String, Set<Node>> consumers = new HashMap<>();
    private final Map<String, Initializer> initializers;
    private final Map<String, ValueInfo> valueInfos;
    private final List<ValueInfo> inputs;
    private final List<ValueInfo> outputs;
    private final Set<String> names = new HashSet<>();

    /** Initial distance of neighbouring labels, so that many nodes fit in between before all are renumbered. */
    private static final long GAP = 1L << 32;

    /** A live node in the ring; {@code label} increases along the ring. */
    private static final class Entry {
        private @Nullable Node node;
        private Entry before = this;
        private Entry next = this;
        private long label;
    }

    private GraphEdit(Graph g, Set<String> taken) {
        original = g;
        names.addAll(taken);
        initializers = new LinkedHashMap<>(g.initializers());
        valueInfos = new LinkedHashMap<>(g.valueInfos());
        inputs = new ArrayList<>(g.inputs());
        outputs = new ArrayList<>(g.outputs());
        names.addAll(initializers.keySet());
        names.addAll(valueInfos.keySet());
        inputs.forEach(i -> names.add(i.name()));
        outputs.forEach(o -> names.add(o.name()));
        for (Node n : g.nodes()) {
            addBefore(ends, n);
        }
    }

    /** An edit of a main graph. */
    public static GraphEdit of(Graph g) {
        return new GraphEdit(g, Set.of());
    }

    /** An edit of a nested graph; {@link #freshName} avoids {@code taken}, the names of the enclosing graphs. */
    public static GraphEdit of(Graph g, Set<String> taken) {
        return new GraphEdit(g, taken);
    }

    private void addBefore(Entry place, Node n) {
        if (entries.containsKey(n)) {
            throw new IllegalArgumentException("node is in the graph already: " + n);
        }
        Entry e = new Entry();
        e.before = place.before;
        e.next = place;
        e.before.next = e;
        place.before = e;
        label(e);
        attach(n, e);
    }

    /** Gives a new entry a label between its neighbours'; renumbers all entries when there is none left. */
    private void label(Entry e) {
        long low = e.before == ends ? 0 : e.before.label;
        long high = e.next == ends ? low + 2 * GAP : e.next.label;
        e.label = low + (high - low) / 2;
        if (e.label == low) {
            long next = 0;
            for (Entry i = ends.next; i != ends; i = i.next) {
                next += GAP;
                i.label = next;
            }
        }
    }

    private void attach(Node n, Entry e) {
        e.node = n;
        entries.put(n, e);
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
        nestedNames(n);
    }

    /** Adds the names inside subgraphs, because they would hide a value of this graph with the same name. */
    private void nestedNames(Node n) {
        List<Graph> open = new ArrayList<>(n.subgraphs());
        while (!open.isEmpty()) {
            Graph g = open.removeLast();
            names.addAll(g.definitions());
            g.nodes().forEach(m -> open.addAll(m.subgraphs()));
        }
    }

    /** Detaches the node from its entry, which stays in the ring. */
    @SuppressWarnings("ReferenceEquality") // nodes are compared by identity
    private Entry detach(Node n) {
        Entry e = entries.remove(n);
        if (e == null) {
            throw new IllegalArgumentException("node is not in the graph (edited before?): " + n);
        }
        for (String o : n.outputs()) {
            if (producers.get(o) == n) {
                producers.remove(o);
            }
        }
        for (String u : n.uses()) {
            Set<Node> set = consumers.get(u);
            if (set != null) {
                set.remove(n);
            }
        }
        return e;
    }

    private void drop(Node n) {
        Entry e = detach(n);
        e.before.next = e.next;
        e.next.before = e.before;
    }

    /**
     * Live nodes in their current order; a copy, so edits during iteration are allowed (skip nodes that are no longer in {@link
     * #contains}).
     */
    public List<Node> nodes() {
        List<Node> list = new ArrayList<>(entries.size());
        for (Entry e = ends.next; e != ends; e = e.next) {
            list.add(Objects.requireNonNull(e.node));
        }
        return list;
    }

    private Entry at(Node n) {
        Entry e = entries.get(n);
        if (e == null) {
            throw new IllegalArgumentException("node is not in the graph (edited before?): " + n);
        }
        return e;
    }

    /** Whether this very object is a live node. */
    public boolean contains(Node n) {
        return entries.containsKey(n);
    }

    /** The node that computes {@code value}; null for inputs, constants and unknown names. */
    public @Nullable Node producer(String value) {
        return producers.get(value);
    }

    /** Nodes that read {@code value}, directly or from a subgraph, in order. Graph outputs do not count. */
    public List<Node> consumers(String value) {
        List<Node> list = new ArrayList<>(consumers.getOrDefault(value, Set.of()));
        list.sort(Comparator.comparingLong(n -> at(n).label));
        return list;
    }

    /** Whether {@code value} is an output of the graph. */
    public boolean isOutput(String value) {
        return outputs.stream().anyMatch(o -> o.name().equals(value));
    }

    /** Whether {@code value} is an input of the graph, with or without an initializer. */
    public boolean isInput(String value) {
        return inputs.stream().anyMatch(o -> o.name().equals(value));
    }

    /** Whether exactly one node reads {@code value} and the graph does not output it, so that a fusion may remove it. */
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

    /** Removes a constant, and the graph input of the same name in IR 3 files. */
    public void removeInitializer(String name) {
        initializers.remove(name);
        inputs.removeIf(i -> i.name().equals(name));
    }

    /** Type of an inner value, input or output; null if unknown. */
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

    /** Replaces the declared inputs; the names that nodes read must remain. */
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

    /** Reserves and returns an unused name: {@code base}, or {@code base_1}, {@code base_2}... */
    public String freshName(String base) {
        String name = base;
        for (int i = 1; !names.add(name); i++) {
            name = base + "_" + i;
        }
        return name;
    }

    /** Inserts nodes immediately before {@code anchor}, in the given order. */
    public void insertBefore(Node anchor, Node... nodes) {
        Entry place = at(anchor);
        for (Node n : nodes) {
            addBefore(place, n);
        }
    }

    /** Adds nodes at the end. */
    public void append(Node... nodes) {
        for (Node n : nodes) {
            addBefore(ends, n);
        }
    }

    /** Replaces {@code old} by {@code nodes}, possibly none, at its position. */
    public void replace(Node old, Node... nodes) {
        Entry place = at(old).next;
        drop(old);
        for (Node n : nodes) {
            addBefore(place, n);
        }
    }

    /** Removes a node; its outputs must be unused when the graph is built. */
    public void remove(Node n) {
        drop(n);
    }

    /**
     * Makes every reader of {@code from}, also in subgraphs, read {@code to} instead. Graph outputs keep their names. Readers become new
     * objects.
     *
     * @throws IllegalArgumentException when a subgraph that reads {@code from} has a value of its own named {@code to}
     */
    public void redirect(String from, String to) {
        for (Node n : consumers(from)) {
            Node renamed = renameUses(n, s -> s.equals(from) ? to : s);
            attach(renamed, detach(n));
        }
    }

    /** The node with all names that it reads mapped: inputs and captures of subgraphs. */
    static Node renameUses(Node n, UnaryOperator<String> map) {
        Node renamed = n.withInputs(
                n.inputs().stream().map(s -> s.isEmpty() ? s : map.apply(s)).toList());
        return mapSubgraphs(renamed, g -> renameCaptures(g, map));
    }

    /** The node with every graph in its attributes mapped; the node itself without such graphs. */
    static Node mapSubgraphs(Node n, UnaryOperator<Graph> map) {
        if (n.subgraphs().isEmpty()) {
            return n;
        }
        Map<String, Attribute> attributes = new LinkedHashMap<>();
        n.attributes().forEach((k, a) -> {
            Attribute.Value v = a.value();
            if (v instanceof Attribute.OfGraph s) {
                v = new Attribute.OfGraph(map.apply(s.value()));
            } else if (v instanceof Attribute.OfGraphs s) {
                v = new Attribute.OfGraphs(s.values().stream().map(map).toList());
            }
            attributes.put(k, new Attribute(a.name(), v, a.doc(), a.unknown()));
        });
        return n.withAttributes(attributes);
    }

    private static Graph renameCaptures(Graph g, UnaryOperator<String> map) {
        Set<String> captured = g.captures();
        Set<String> own = g.definitions();
        for (String s : captured) {
            if (own.contains(map.apply(s))) {
                throw new IllegalArgumentException("graph '" + g.name() + "' has a value '" + map.apply(s)
                        + "' of its own, so it cannot read the outer one instead of '" + s + "'");
            }
        }
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
     * Removes nodes with unused outputs, and unused constants.
     *
     * @return number of removed nodes
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
     * Builds the changed graph.
     *
     * @throws IllegalStateException when the edits made a cycle, or defined a value twice
     */
    public Graph build() {
        List<Node> order = sorted();
        Set<String> defined = new HashSet<>(initializers.keySet());
        for (Node n : order) {
            for (String o : n.outputs()) {
                if (!o.isEmpty() && !defined.add(o)) {
                    throw new IllegalStateException("value '" + o + "' of node " + n.id() + " is defined twice");
                }
            }
        }
        inputs.forEach(i -> defined.add(i.name()));
        valueInfos.keySet().removeIf(v -> !defined.contains(v));
        return new Graph(
                original.name(),
                order,
                initializers,
                inputs,
                outputs,
                valueInfos,
                original.doc(),
                original.metadata(),
                original.unknown());
    }

    private List<Node> sorted() {
        TopologicalOrder order = TopologicalOrder.of(nodes());
        if (order.onCycle() != null) {
            throw new IllegalStateException(
                    "the edits made a cycle: node " + order.onCycle().id() + " depends on its own result");
        }
        return order.nodes();
    }
}
