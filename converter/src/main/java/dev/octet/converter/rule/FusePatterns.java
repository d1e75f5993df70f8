package dev.octet.converter.rule;

import dev.octet.converter.pass.Pass;
import dev.octet.converter.pass.PassLog;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Brings what exporters spell in many ways to the operators of {@link CanonicalOps}.
 *
 * <p>Works best after the passes of {@code dev.octet.converter.pass} but does not depend on them: constants may be initializers or
 * {@code Constant} nodes, axes attributes or inputs, and types may be missing (patterns that then cannot be decided are refused). Only the
 * main graph is rewritten; bodies of {@code If}, {@code Loop} and {@code Scan} stay and are noted. Expects a legal graph, without cycles.
 *
 * <p>A canonical node has the name of the module it comes from ({@code /encoder/layer.0/attention/self/query}), uniquely within the
 * graph, and computes the value of the same name as the last node it replaces.
 */
public final class FusePatterns implements Pass {
    /**
     * The result.
     *
     * @param fused number of canonical nodes made, by operator; operators without any are left out
     * @param refusals the near misses, in order of rules and nodes
     */
    public record Result(GraphModel model, Map<String, Integer> fused, List<Outcome.Refused> refusals) {
        public Result {
            fused = Map.copyOf(fused);
            refusals = List.copyOf(refusals);
        }
    }

    private final List<FusionRule> rules;

    /** The patterns that every import looks for. */
    public FusePatterns() {
        this(FusionRules.ALL);
    }

    private FusePatterns(List<FusionRule> rules) {
        this.rules = rules;
    }

    /**
     * The patterns that only training looks for, in an imported graph whose sizes are numbers. The result is at the opset of the
     * operators it then has.
     */
    public static FusePatterns forTraining() {
        return new FusePatterns(FusionRules.FOR_TRAINING);
    }

    @Override
    public String name() {
        return "fuse-patterns";
    }

    @Override
    public GraphModel apply(GraphModel model, PassLog log) {
        return fuse(model, log).model();
    }

    /** As {@link #apply}, with what came of it. */
    public Result fuse(GraphModel model, PassLog log) {
        Result result = fuse(model);
        for (Node n : model.graph().nodes()) {
            if (!n.subgraphs().isEmpty()) {
                log.note(name(), n.id(), "control flow (" + n.opType() + "): its body is kept as it is");
            }
        }
        result.refusals().forEach(r -> log.note(name(), r.node(), r.reason()));
        for (FusionRule rule : rules) {
            int n = result.fused().getOrDefault(rule.name(), 0);
            if (n > 0) {
                log.note(name(), "", n + " " + rule.name());
            }
        }
        return result;
    }

    /** The same without a log. */
    Result fuse(GraphModel model) {
        GraphEdit edit = GraphEdit.of(model.graph());
        GraphFacts facts = new GraphFacts(edit, model.irVersion());
        Set<String> nodeNames = new HashSet<>();
        edit.nodes().forEach(n -> nodeNames.add(n.name()));
        Map<String, Integer> fused = new LinkedHashMap<>();
        List<Outcome.Refused> refusals = new ArrayList<>();
        for (FusionRule rule : rules) {
            for (Node node : edit.nodes()) {
                if (!edit.contains(node)) {
                    continue; // part of an earlier match
                }
                switch (rule.apply(facts, node)) {
                    case Outcome.NoMatch _ -> {}
                    case Outcome.Refused r -> refusals.add(r);
                    case Outcome.Fused f -> {
                        replace(edit, f, nodeNames);
                        fused.merge(rule.name(), 1, Integer::sum);
                    }
                }
            }
        }
        if (fused.isEmpty()) {
            return new Result(model, fused, refusals);
        }
        if (fused.containsKey(CanonicalOps.EXPERT_SUM)) {
            edit.removeUnreachable(); // how tokens were brought to experts and back
        }
        GraphModel changed = model.withGraph(edit.build());
        return new Result(
                fused.containsKey(FuseAttention.NAME)
                        ? changed.withOpset("", Math.max(FuseAttention.OPSET, model.opset()), FuseAttention.IR)
                        : changed.withOpset(Node.OCTET_DOMAIN, CanonicalOps.VERSION, model.irVersion()),
                fused,
                refusals);
    }

    private static void replace(GraphEdit edit, Outcome.Fused f, Set<String> nodeNames) {
        f.matched().forEach(n -> nodeNames.remove(n.name()));
        Node fused = f.fused().withName(unique(f.fused().name(), nodeNames));
        f.constants().forEach(edit::putInitializer);
        Node last = f.matched().getLast();
        f.matched().subList(0, f.matched().size() - 1).forEach(edit::remove);
        f.before().forEach(n -> edit.insertBefore(last, n));
        edit.replace(last, fused);
        fused.inputs().forEach(i -> promote(edit, i));
        f.matched().forEach(n -> n.uses().forEach(u -> removeUnused(edit, u)));
    }

    private static String unique(String name, Set<String> taken) {
        String candidate = name;
        for (int i = 1; !taken.add(candidate); i++) {
            candidate = name + "_" + i;
        }
        return candidate;
    }

    /** A constant of a canonical node becomes an initializer, also where the file had a Constant node. */
    private static void promote(GraphEdit edit, String value) {
        Node n = edit.producer(value);
        if (n != null && n.is("Constant") && n.attribute("value").orElse(null) instanceof Attribute.OfTensor t) {
            edit.remove(n);
            Initializer i = t.value().withName(value);
            edit.putInitializer(i);
        }
    }

    /** Takes away constants, and nodes that only pass one on, when nothing reads them any more. */
    private static void removeUnused(GraphEdit edit, String value) {
        String v = value;
        while (!v.isEmpty() && edit.consumers(v).isEmpty() && !edit.isOutput(v)) {
            Node n = edit.producer(v);
            if (n == null) {
                if (edit.initializer(v) != null) {
                    edit.removeInitializer(v);
                }
                return;
            }
            if (!isPassedOn(n)) {
                return;
            }
            edit.remove(n);
            v = n.input(0);
        }
    }

    private static boolean isPassedOn(@Nullable Node n) {
        return n != null && (n.is("Constant") || n.is("Identity") || n.is("Cast") || n.is("Transpose"));
    }
}
