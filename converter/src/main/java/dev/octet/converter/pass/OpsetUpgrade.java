package dev.octet.converter.pass;

import dev.octet.converter.infer.Analysis;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Function;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.op.Operator;
import dev.octet.formats.op.OperatorTable;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Brings operators of ONNX's default domain from opset 9..20 to 21, the lowest that has all FP8 types and block-wise
 * quantisation. Models at 21 to 28 pass through as they are; other domains are never touched.
 *
 * <p>Goes through subgraphs and function bodies, which name the versions they are written for themselves. {@link OperatorTable}
 * says what each new version means for older nodes, {@link UpgradeRewrites} holds the rewrites.
 */
public final class OpsetUpgrade implements Pass {
    /** The version models are brought to. */
    public static final int TARGET = 21;

    /** The lowest version that is understood. */
    public static final int OLDEST = 9;

    /** The highest version that passes through; later versions may change operators in ways that Octet does not know yet. */
    public static final int NEWEST = 28;

    /** The IR version that came with opset 21 (onnx/helper.py, VERSION_TABLE). */
    private static final int TARGET_IR = 10;

    @Override
    public String name() {
        return "opset-upgrade";
    }

    /**
     * @throws UnsupportedModelException when the version is outside 9 to 28, or a node has no form in opset 21
     * @throws MalformedModelException when operators are used without a version, or a node lacks what its version requires
     */
    @Override
    public GraphModel apply(GraphModel model, PassLog log) {
        long version = model.opset();
        if (version == 0) {
            requireNoNodes(model.graph());
            return model;
        }
        check(version, "the model");
        if (version >= TARGET) {
            return model;
        }
        Names names = Names.of(model.graph());
        Graph graph = upgrade(model.graph(), version, null, names);
        List<Function> functions = model.functions().stream().map(this::upgrade).toList();
        log.note(
                name(),
                "",
                "opset " + version + " -> " + TARGET + ", "
                        + model.graph().nodes().size() + " -> " + graph.nodes().size() + " nodes");
        return model.withGraph(graph).withFunctions(functions).withOpset("", TARGET, TARGET_IR);
    }

    private static void requireNoNodes(Graph graph) {
        for (Node n : graph.nodes()) {
            if (n.domain().isEmpty()) {
                throw new MalformedModelException(
                        "operator " + n.opType() + " is used, but no version of the default operator set is imported",
                        "node " + n.id() + ", model field opset_import",
                        "add the version the model was made for to opset_import, or export it again");
            }
        }
    }

    private static void check(long version, String where) {
        if (version < OLDEST || version > NEWEST) {
            throw new UnsupportedModelException(
                    "opset " + version + " is outside " + OLDEST + " to " + NEWEST
                            + (version < OLDEST ? " (broadcasting and loops had other semantics before 9)" : ""),
                    where + ", opset_import",
                    version < OLDEST
                            ? "export the model with opset 17 or later"
                            : "export the model with opset " + TARGET + " to " + NEWEST);
        }
    }

    private Graph upgrade(Graph g, long version, @Nullable Analysis outer, Names names) {
        Analysis analysis = Analysis.of(g, version, outer);
        UpgradeScope scope = new UpgradeScope(
                analysis,
                names,
                used(g.nodes(), g.outputs().stream().map(o -> o.name()).toList()),
                false);
        List<Node> nodes = upgrade(g.nodes(), version, scope, names);
        Map<String, Initializer> constants = new LinkedHashMap<>(g.initializers());
        constants.putAll(scope.constants());
        return new Graph(
                g.name(),
                nodes,
                constants,
                g.inputs(),
                g.outputs(),
                g.valueInfos(),
                g.doc(),
                g.metadata(),
                g.unknown());
    }

    private Function upgrade(Function f) {
        Map<String, Long> opsets = new LinkedHashMap<>();
        f.opsets().forEach((d, v) -> opsets.merge(d.equals("ai.onnx") ? "" : d, v, Math::max));
        long version = opsets.getOrDefault("", (long) TARGET);
        check(version, "function " + f.domain() + "." + f.name());
        if (version >= TARGET) {
            return f;
        }
        Names names = Names.of(f.inputs(), f.outputs(), f.nodes());
        Analysis analysis = Analysis.of(Graph.of(f.name(), f.nodes(), List.of(), List.of(), List.of()), version, null);
        UpgradeScope scope = new UpgradeScope(analysis, names, used(f.nodes(), f.outputs()), true);
        List<Node> nodes = upgrade(f.nodes(), version, scope, names);
        opsets.put("", (long) TARGET);
        return f.withNodes(nodes).withOpsets(opsets);
    }

    private static Set<String> used(List<Node> nodes, List<String> outputs) {
        Set<String> used = new HashSet<>(outputs);
        nodes.forEach(n -> used.addAll(n.uses()));
        return used;
    }

    private List<Node> upgrade(List<Node> nodes, long version, UpgradeScope scope, Names names) {
        List<Node> upgraded = new ArrayList<>();
        for (Node n : nodes) {
            Node withBodies = upgradeSubgraphs(n, version, scope, names);
            List<Node> result = new ArrayList<>();
            step(withBodies, version, scope, result);
            upgraded.addAll(scope.drainConstantNodes());
            upgraded.addAll(result);
        }
        return upgraded;
    }

    private Node upgradeSubgraphs(Node n, long version, UpgradeScope scope, Names names) {
        if (n.subgraphs().isEmpty()) {
            return n;
        }
        Map<String, Attribute> attributes = new LinkedHashMap<>();
        n.attributes().forEach((k, a) -> {
            Attribute.Value v = a.value();
            if (v instanceof Attribute.OfGraph s) {
                v = new Attribute.OfGraph(upgrade(s.value(), version, scope.analysis(), names));
            } else if (v instanceof Attribute.OfGraphs s) {
                v = new Attribute.OfGraphs(s.values().stream()
                        .map(g -> upgrade(g, version, scope.analysis(), names))
                        .toList());
            }
            attributes.put(k, new Attribute(a.name(), v, a.doc(), a.unknown()));
        });
        return n.withAttributes(attributes);
    }

    /** Takes one node through all changes after {@code version}; the nodes a change makes of it go through the later changes. */
    private static void step(Node n, long version, UpgradeScope scope, List<Node> result) {
        if (!n.domain().isEmpty()) {
            result.add(n);
            return;
        }
        Operator operator = OperatorTable.of(n).filter(o -> o.since() <= TARGET).orElse(null);
        if (operator == null) {
            throw new UnsupportedModelException(
                    "operator " + n.opType() + " of opset " + version
                            + " is not known, so it cannot be brought to opset " + TARGET,
                    "node " + n.id(),
                    "export the model with opset " + TARGET + " or later");
        }
        int next = operator.next(version).orElse(Integer.MAX_VALUE);
        if (next > TARGET) {
            result.add(n);
            return;
        }
        for (Node rewritten : UpgradeRewrites.apply(operator.change(next), n, scope)) {
            step(rewritten, next, scope, result);
        }
    }
}
