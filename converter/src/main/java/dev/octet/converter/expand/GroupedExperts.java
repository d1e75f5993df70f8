package dev.octet.converter.expand;

import dev.octet.converter.infer.Analysis;
import dev.octet.converter.rule.CanonicalOps;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.function.BiConsumer;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * Mixtures of experts for the trainer, whose programs have fixed sizes: how many rows an expert gets is known only at run time, but the rows of all
 * experts together are as many as choices. Where all experts compute the same but for their weights, their rows are computed one behind another, each
 * Linear of theirs as one product in groups; no row is dropped and none is added.
 *
 * <p>Where experts differ (an adapter at one of them, a value inside that something else reads), each computes all tokens, and what it was not chosen
 * for gets the weight 0: the same result, at as many times the work as there are experts for each one chosen.
 */
public final class GroupedExperts {
    private final GraphEdit edit;
    private final Analysis analysis;
    private final Map<String, Node> producers = new HashMap<>();
    private final Map<String, Integer> uses = new HashMap<>();
    private final Map<Node, Integer> order = new HashMap<>();
    private final Set<String> constants;

    private GroupedExperts(GraphModel model, GraphEdit edit) {
        this.edit = edit;
        this.analysis = Analysis.of(model);
        Graph graph = model.graph();
        constants = graph.initializers().keySet();
        int position = 0;
        for (Node n : graph.nodes()) {
            order.put(n, position++);
            n.outputs().forEach(o -> producers.put(o, n));
            n.uses().forEach(u -> uses.merge(u, 1, Integer::sum));
        }
        graph.outputs().forEach(o -> uses.merge(o.name(), 1, Integer::sum));
    }

    /**
     * The model with its mixtures in groups; the same object when it has none.
     *
     * @param model at concrete shapes
     * @param masked gets the node of each mixture whose experts compute all tokens, and why
     */
    public static GraphModel apply(GraphModel model, BiConsumer<String, String> masked) {
        List<Node> sums = model.graph().nodes().stream()
                .filter(n -> n.isOctet(CanonicalOps.EXPERT_SUM))
                .toList();
        if (sums.isEmpty()) {
            return model;
        }
        GraphEdit edit = GraphEdit.of(model.graph());
        GroupedExperts pass = new GroupedExperts(model, edit);
        for (Node sum : sums) {
            Optional<String> reason = pass.group(sum);
            reason.ifPresent(why -> {
                masked.accept(sum.id(), why);
                pass.mask(sum);
            });
        }
        edit.removeUnreachable();
        return model.withGraph(edit.build());
    }

    /** One expert: from its rows to what it makes of them. */
    private record Branch(Node rows, List<Node> nodes, String result) {}

    /** Groups a mixture; why not, where it cannot be. */
    private Optional<String> group(Node sum) {
        List<Branch> branches = new ArrayList<>();
        for (int i = 1; i < sum.inputs().size(); i += 2) {
            Branch branch = branch(sum.input(i), sum.input(i + 1));
            if (branch == null) {
                return Optional.of("'" + sum.input(i) + "' is not what an expert makes of its rows");
            }
            branches.add(branch);
        }
        Branch first = branches.getFirst();
        for (int e = 0; e < branches.size(); e++) {
            Branch branch = branches.get(e);
            Optional<String> reason = branch.rows().intAttribute("expert", -1) == e
                    ? difference(first, branch)
                    : Optional.of("the experts are not in order");
            if (reason.isPresent()) {
                return reason;
            }
        }
        write(sum, branches);
        return Optional.empty();
    }

    private @Nullable Branch branch(String result, String places) {
        Node rows = producers.get(places);
        if (rows == null || !rows.isOctet(CanonicalOps.EXPERT_ROWS)) {
            return null;
        }
        Set<Node> inside = new HashSet<>();
        List<String> open = new ArrayList<>(List.of(result));
        while (!open.isEmpty()) {
            String value = open.removeLast();
            if (constants.contains(value) || value.isEmpty() || value.equals(rows.output())) {
                continue;
            }
            Node producer = producers.get(value);
            if (producer == null || producer.isOctet(CanonicalOps.EXPERT_ROWS)) {
                return null;
            }
            if (inside.add(producer)) {
                open.addAll(producer.inputs());
            }
        }
        List<Node> nodes = inside.stream()
                .sorted((a, b) ->
                        Integer.compare(Objects.requireNonNull(order.get(a)), Objects.requireNonNull(order.get(b))))
                .toList();
        return new Branch(rows, nodes, result);
    }

    /** In what an expert differs from the first; empty where only weights of Linears do. */
    private Optional<String> difference(Branch first, Branch other) {
        if (first.nodes().size() != other.nodes().size()) {
            return Optional.of("experts have different nodes");
        }
        Map<String, String> names =
                new HashMap<>(Map.of(first.rows().output(), other.rows().output()));
        Map<String, Integer> read = new HashMap<>();
        for (int i = 0; i < first.nodes().size(); i++) {
            Node a = first.nodes().get(i);
            Node b = other.nodes().get(i);
            boolean same = a.opType().equals(b.opType())
                    && a.domain().equals(b.domain())
                    && a.attributes().equals(b.attributes())
                    && a.inputs().size() == b.inputs().size()
                    && a.outputs().size() == 1
                    && b.outputs().size() == 1;
            for (int k = 0; same && k < a.inputs().size(); k++) {
                same = isWeight(a, k)
                        ? constants.contains(a.input(k)) && sameType(a.input(k), b.input(k))
                        : names.getOrDefault(a.input(k), a.input(k)).equals(b.input(k));
            }
            if (!same) {
                return Optional.of("'" + b.id() + "' differs from '" + a.id() + "'");
            }
            b.inputs().forEach(input -> read.merge(input, 1, Integer::sum));
            names.put(a.output(), b.output());
        }
        for (Node b : other.nodes()) {
            int inside = read.getOrDefault(b.output(), 0) + (b.output().equals(other.result()) ? 1 : 0);
            if (uses.getOrDefault(b.output(), 0) != inside) {
                return Optional.of("'" + b.output() + "' is read outside of its expert");
            }
        }
        return Optional.empty();
    }

    private static boolean isWeight(Node n, int input) {
        return n.isOctet(CanonicalOps.LINEAR) && input > 0;
    }

    private boolean sameType(String a, String b) {
        Initializer x = edit.initializer(a);
        Initializer y = edit.initializer(b);
        return x != null
                && y != null
                && x.spec().isPresent()
                && x.spec().map(s -> s.shape()).equals(y.spec().map(s -> s.shape()))
                && x.tensor().isPresent() == y.tensor().isPresent();
    }

    private void write(Node sum, List<Branch> branches) {
        Branch first = branches.getFirst();
        String name = sum.id();
        String rows = edit.freshName(name + "/rows");
        String places = edit.freshName(name + "/places");
        String offsets = edit.freshName(name + "/offsets");
        List<Node> nodes = new ArrayList<>();
        String chosen = first.rows().input(1);
        if (first.rows().intAttribute(CanonicalOps.DROPPING, 0) != 0) {
            // a dropped choice has the weight 0: whichever expert computes its row, neither the result nor a gradient
            // has anything of it
            String someone = edit.freshName(name + "/someone");
            nodes.add(Node.of(
                    someone, "Max", List.of(chosen, new Expansion(edit, sum).number(0, DType.I64)), List.of(someone)));
            chosen = someone;
        }
        nodes.add(Node.of(
                name + "/" + CanonicalOps.EXPERT_DISPATCH,
                CanonicalOps.EXPERT_DISPATCH,
                Node.OCTET_DOMAIN,
                List.of(first.rows().input(0), chosen),
                List.of(rows, places, offsets),
                Attribute.of("experts", branches.size())));
        Map<String, String> names = new LinkedHashMap<>(Map.of(first.rows().output(), rows));
        for (int i = 0; i < first.nodes().size(); i++) {
            Node n = first.nodes().get(i);
            List<String> inputs = new ArrayList<>();
            for (int k = 0; k < n.inputs().size(); k++) {
                if (!isWeight(n, k)) {
                    inputs.add(names.getOrDefault(n.input(k), n.input(k)));
                }
            }
            String value = edit.freshName(n.output() + "/grouped");
            names.put(n.output(), value);
            if (!n.isOctet(CanonicalOps.LINEAR)) {
                nodes.add(n.withName(n.id() + "/grouped").withInputs(inputs).withOutputs(List.of(value)));
                continue;
            }
            inputs.add(offsets);
            for (int k = 1; k < n.inputs().size(); k++) {
                for (Branch branch : branches) {
                    inputs.add(branch.nodes().get(i).input(k));
                }
            }
            int at = i;
            String ids =
                    branches.stream().map(branch -> branch.nodes().get(at).id()).collect(Collectors.joining("\n"));
            nodes.add(Node.of(
                    n.id() + "/grouped",
                    CanonicalOps.GROUPED_LINEAR,
                    Node.OCTET_DOMAIN,
                    inputs,
                    List.of(value),
                    Attribute.of("transB", n.intAttribute("transB", 0)),
                    Attribute.of(Node.LINEARS, ids)));
        }
        nodes.add(Node.of(
                name + "/" + CanonicalOps.EXPERT_COMBINE,
                CanonicalOps.EXPERT_COMBINE,
                Node.OCTET_DOMAIN,
                List.of(Objects.requireNonNull(names.get(first.result())), places, sum.input(0)),
                List.of(sum.output())));
        edit.replace(sum, nodes.toArray(Node[]::new));
    }

    /** Every expert computes all tokens: its rows are x, and its weight is 0 where it was not chosen. */
    private void mask(Node sum) {
        long size = sum.intAttribute("size", 0);
        List<Dim> weights = Objects.requireNonNull(analysis.dims(sum.input(0)));
        long choices = Objects.requireNonNull(weights.getLast().size());
        Expansion e = new Expansion(edit, sum);
        String given = e.node("Reshape", List.of(sum.input(0), e.numbers(-1, choices)));
        String none = e.number(0, DType.F32);
        String total = null;
        for (int i = 1; i < sum.inputs().size(); i += 2) {
            Node rows = Objects.requireNonNull(producers.get(sum.input(i + 1)));
            String expert = e.number((double) rows.intAttribute("expert", 0), DType.I64);
            String hits =
                    e.node("Equal", List.of(e.node("Reshape", List.of(rows.input(1), e.numbers(-1, choices))), expert));
            String weight = e.node(
                    "ReduceSum",
                    List.of(e.node("Where", List.of(hits, given, none)), e.numbers(-1)),
                    Attribute.of("keepdims", 1));
            String term = e.node("Mul", List.of(sum.input(i), weight));
            total = total == null ? term : e.node("Add", List.of(total, term));
            if (edit.contains(rows)) {
                edit.redirect(rows.output(), rows.input(0));
                edit.remove(rows);
            }
        }
        long[] dims = new long[weights.size()];
        for (int i = 0; i < dims.length - 1; i++) {
            dims[i] = Objects.requireNonNull(weights.get(i).size());
        }
        dims[dims.length - 1] = size;
        e.last("Reshape", List.of(Objects.requireNonNull(total), e.numbers(dims)));
    }
}
