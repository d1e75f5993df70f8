package dev.octet.formats.graph;

import dev.octet.formats.error.MalformedModelException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * Checks that a model's graphs are valid, so that all later code may rely on it. The rules (ONNX docs/IR.md):
 * <ol>
 *   <li>every value that is read or output is defined in its graph or an enclosing one;
 *   <li>no value is defined twice in a graph, and every input and output has a name;
 *   <li>no node depends on its own result;
 *   <li>every node has an output;
 *   <li>the operator set of every domain in use is imported, except {@code dev.octet};
 *   <li>attributes that refer to a caller's attribute occur only in functions;
 *   <li>no function is defined twice, or calls itself, directly or indirectly.
 * </ol>
 * Nodes may be out of order; {@link #sorted} sorts them. The converter checks operators and their versions.
 */
public final class GraphCheck {
    private static final String FIX =
            "the exporter made an invalid model: export it again, or with another exporter version";

    private final GraphModel model;
    private final List<Finding> findings = new ArrayList<>();

    /** A broken rule: what is wrong, where, and the fix. One line each. */
    public record Finding(String what, String where, String fix) {}

    private GraphCheck(GraphModel model) {
        this.model = model;
    }

    /** All findings on {@code model}; empty for a valid model. */
    public static List<Finding> check(GraphModel model) {
        GraphCheck check = new GraphCheck(model);
        check.body(model.graph(), "graph '" + model.graph().name() + "'", model.opsets(), false);
        for (Function f : model.functions()) {
            check.body(asGraph(f), "function '" + qualified(f.domain(), f.name()) + "'", f.opsets(), true);
        }
        check.functions();
        return List.copyOf(check.findings);
    }

    /**
     * Requires that {@code model} is valid.
     *
     * @throws MalformedModelException for the first finding
     */
    public static void require(GraphModel model) {
        List<Finding> findings = check(model);
        if (!findings.isEmpty()) {
            Finding first = findings.getFirst();
            String more = findings.size() > 1 ? " (and " + (findings.size() - 1) + " more findings)" : "";
            throw new MalformedModelException(first.what() + more, first.where(), first.fix());
        }
    }

    /**
     * The model with the nodes of all graphs and functions in topological order; parts already in order are kept, as the same objects.
     *
     * @throws IllegalArgumentException when there is a cycle
     */
    public static GraphModel sorted(GraphModel model) {
        Graph graph = sorted(model.graph());
        List<Function> functions =
                model.functions().stream().map(GraphCheck::sorted).toList();
        boolean same = sameObjects(List.of(graph), List.of(model.graph())) && sameObjects(functions, model.functions());
        return same ? model : model.withGraph(graph).withFunctions(functions);
    }

    /** One graph sorted as by {@link #sorted(GraphModel)}, nested graphs included. */
    public static Graph sorted(Graph g) {
        List<Node> nodes = sorted(g.nodes());
        return sameObjects(nodes, g.nodes())
                ? g
                : new Graph(
                        g.name(),
                        nodes,
                        g.initializers(),
                        g.inputs(),
                        g.outputs(),
                        g.valueInfos(),
                        g.doc(),
                        g.metadata(),
                        g.unknown());
    }

    private static Function sorted(Function f) {
        List<Node> nodes = sorted(f.nodes());
        return sameObjects(nodes, f.nodes()) ? f : f.withNodes(nodes);
    }

    private static List<Node> sorted(List<Node> nodes) {
        TopologicalOrder order = TopologicalOrder.of(nodes);
        if (order.onCycle() != null) {
            throw new IllegalArgumentException("node " + order.onCycle().id() + " is on a cycle");
        }
        return order.nodes().stream()
                .map(n -> {
                    List<Graph> before = n.subgraphs();
                    Node after = GraphEdit.mapSubgraphs(n, GraphCheck::sorted);
                    return sameObjects(before, after.subgraphs()) ? n : after;
                })
                .toList();
    }

    @SuppressWarnings("ReferenceEquality") // equal nodes may be different objects
    private static <T> boolean sameObjects(List<T> a, List<T> b) {
        for (int i = 0; i < a.size(); i++) {
            if (a.get(i) != b.get(i)) {
                return false;
            }
        }
        return true;
    }

    /** The body of a function as a graph, because the same rules apply. */
    private static Graph asGraph(Function f) {
        return Graph.of(
                f.name(),
                f.nodes(),
                List.of(),
                f.inputs().stream().map(i -> new ValueInfo(i, null)).toList(),
                f.outputs().stream().map(o -> new ValueInfo(o, null)).toList());
    }

    private record Task(Scope scope, String where) {}

    /** Checks a graph and all its nested graphs. */
    private void body(Graph root, String rootWhere, Map<String, Long> opsets, boolean function) {
        List<Task> open = new ArrayList<>();
        open.add(new Task(new Scope(root, null), rootWhere));
        Set<String> missing = new HashSet<>();
        while (!open.isEmpty()) {
            Task task = open.removeLast();
            Graph g = task.scope().graph();
            definedOnce(g, task.where());
            usesDefined(task);
            cycle(g, task.where());
            for (Node n : g.nodes()) {
                node(n, task.where(), opsets, missing, function);
            }
            task.scope()
                    .inner(s -> open.add(
                            new Task(s, task.where() + ", graph '" + s.graph().name() + "'")));
        }
    }

    private void definedOnce(Graph g, String where) {
        Map<String, String> by = new HashMap<>();
        for (ValueInfo i : g.inputs()) {
            define(i.name(), "as an input", by, where);
        }
        // A constant of the same name is an input's default.
        g.initializers().keySet().forEach(i -> by.put(i, "as a constant"));
        for (Node n : g.nodes()) {
            for (String o : n.outputs()) {
                if (!o.isEmpty()) {
                    define(o, "by node " + n.id(), by, where);
                }
            }
        }
        for (ValueInfo o : g.outputs()) {
            if (o.name().isEmpty()) {
                find("an output of the graph has no name", where);
            }
        }
    }

    private void define(String name, String how, Map<String, String> by, String where) {
        if (name.isEmpty()) {
            find("an input of the graph has no name", where);
            return;
        }
        String before = by.put(name, how);
        if (before != null) {
            find("the value '" + name + "' is defined twice: " + before + " and " + how, where);
        }
    }

    private void usesDefined(Task task) {
        Scope scope = task.scope();
        for (Node n : scope.graph().nodes()) {
            for (String i : n.inputs()) {
                if (!i.isEmpty() && !scope.defines(i)) {
                    find("node " + n.id() + " reads the undefined value '" + i + "'", task.where());
                }
            }
        }
        for (ValueInfo o : scope.graph().outputs()) {
            if (!o.name().isEmpty() && !scope.defines(o.name())) {
                find("the output '" + o.name() + "' is undefined", task.where());
            }
        }
    }

    private void cycle(Graph g, String where) {
        Node on = TopologicalOrder.of(g.nodes()).onCycle();
        if (on != null) {
            find("the graph has a cycle: node " + on.id() + " depends on its own result", where);
        }
    }

    private void node(Node n, String where, Map<String, Long> opsets, Set<String> missing, boolean function) {
        if (n.outputs().stream().allMatch(String::isEmpty)) {
            find("node " + n.id() + " has no output", where);
        }
        if (!opsets.containsKey(n.domain()) && !n.domain().equals(Node.OCTET_DOMAIN) && missing.add(n.domain())) {
            find(
                    "node " + n.id() + " is of domain '" + (n.domain().isEmpty() ? "ai.onnx" : n.domain())
                            + "', whose operator set is not imported",
                    where);
        }
        if (!function) {
            for (Attribute a : n.attributes().values()) {
                if (a.value() instanceof Attribute.Reference r) {
                    find(
                            "attribute '" + a.name() + "' of node " + n.id() + " stands for the attribute '"
                                    + r.parameter() + "' of a function, but is in none",
                            where);
                }
            }
        }
    }

    private static String qualified(String domain, String name) {
        return domain.isEmpty() ? name : domain + "." + name;
    }

    private record Key(String domain, String name, String overload) {}

    private void functions() {
        Map<Key, Function> byKey = new LinkedHashMap<>();
        for (Function f : model.functions()) {
            if (byKey.put(new Key(f.domain(), f.name(), f.overload()), f) != null) {
                find("there are two functions '" + qualified(f.domain(), f.name()) + "'", "the model");
            }
        }
        Map<Key, Set<Key>> calls = byKey.entrySet().stream()
                .collect(Collectors.toMap(
                        Map.Entry::getKey, e -> calls(e.getValue(), byKey), (a, b) -> a, LinkedHashMap::new));
        Key on = recursive(calls);
        if (on != null) {
            find("the function '" + qualified(on.domain(), on.name()) + "' calls itself", "the model");
        }
    }

    private static Set<Key> calls(Function f, Map<Key, Function> byKey) {
        Set<Key> called = new HashSet<>();
        List<Graph> open = new ArrayList<>(List.of(asGraph(f)));
        while (!open.isEmpty()) {
            for (Node n : open.removeLast().nodes()) {
                Key key = new Key(n.domain(), n.opType(), n.overload());
                if (byKey.containsKey(key)) {
                    called.add(key);
                }
                open.addAll(n.subgraphs());
            }
        }
        return called;
    }

    /** Removes functions whose calls are all removed; the rest is on a cycle or calls into one. */
    private static @Nullable Key recursive(Map<Key, Set<Key>> calls) {
        Map<Key, Set<Key>> left = new LinkedHashMap<>(calls);
        while (left.entrySet().removeIf(e -> e.getValue().stream().noneMatch(left::containsKey))) {}
        if (left.isEmpty()) {
            return null;
        }
        Set<Key> seen = new HashSet<>();
        Key at = left.keySet().iterator().next();
        while (seen.add(at)) {
            at = left.getOrDefault(at, Set.of()).stream()
                    .filter(left::containsKey)
                    .findFirst()
                    .orElseThrow();
        }
        return at;
    }

    private void find(String what, String where) {
        findings.add(new Finding(what, where, FIX));
    }
}
