package dev.octet.trainer.cut;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.autodiff.ReadGraph;
import dev.octet.trainer.kernel.CounterRandom;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.op.attention.Attention;
import dev.octet.trainer.op.copy.Split;
import dev.octet.trainer.op.dropout.Dropout;
import dev.octet.trainer.op.expand.Expand;
import dev.octet.trainer.op.gather.CutGather;
import dev.octet.trainer.op.gather.Gather;
import dev.octet.trainer.op.loss.CutCrossEntropyLoss;
import dev.octet.trainer.op.loss.SoftmaxCrossEntropyLoss;
import dev.octet.trainer.op.product.Linear;
import dev.octet.trainer.op.qat.GridQuantize;
import dev.octet.trainer.op.qat.QuantizeNode;
import dev.octet.trainer.op.reduce.Reduce;
import dev.octet.trainer.op.rotary.RotaryEmbedding;
import dev.octet.trainer.op.shard.RankExchange;
import dev.octet.trainer.op.view.View;
import dev.octet.trainer.precision.LinearModule;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;

/** Writes the graph of one rank: nodes with their part of what is cut, and exchanges where it begins and ends. */
final class CutWriter {
    /** Behind the id of a layer, of the nodes that add up what ranks have made of its result, and add its bias. */
    private static final String SUM = "/sum";

    private static final String BIAS = "/bias";

    private final Graph whole;
    private final ReadGraph read;
    private final CutSearch search;
    private final CutPlace place;
    private final Set<String> parameters;
    /** Values that a gradient flows to. */
    private final Set<String> dependent = new HashSet<>();
    /** What was exchanged so far, by the value and how. */
    private final Map<String, String> exchanged = new HashMap<>();
    /** Values of which this rank has some positions. */
    private final Map<String, Cut> positions = new HashMap<>();

    private final Optional<SequenceCut> sequence;

    private final List<Node> nodes = new ArrayList<>();
    private final Map<String, Initializer> constants;
    private final Set<String> names = new HashSet<>();

    CutWriter(Graph whole, ReadGraph read, CutSearch search, CutPlace place, Set<String> parameters) {
        this.whole = whole;
        this.read = read;
        this.search = search;
        this.place = place;
        this.parameters = parameters;
        this.sequence = place.sequence() ? Optional.of(SequenceCut.of(read, place)) : Optional.empty();
        this.constants = new LinkedHashMap<>(whole.initializers());
        names.addAll(whole.definitions());
    }

    /**
     * The graph.
     *
     * @param stored constants that stay in their file's bytes
     * @param kept parts of such constants so far
     */
    Graph write(Set<String> stored, Map<String, Tensor> kept) {
        for (Node node : read.nodes()) {
            Op op = read.op(node);
            for (int i = 0; i < node.inputs().size(); i++) {
                String input = node.input(i);
                if (!input.isEmpty()
                        && (parameters.contains(input) || dependent.contains(input))
                        && op.isDifferentiable(i)) {
                    dependent.addAll(node.outputs());
                }
            }
        }
        read.nodes().forEach(this::write);
        search.cuts().forEach((name, cut) -> {
            Initializer constant = constants.get(name);
            if (constant != null) {
                Tensor all = constant.tensor().orElseThrow();
                Part part = cut.part(all.shape(), place.rank(), place.ranks());
                Tensor made = stored.contains(name)
                        ? kept.computeIfAbsent(name, _ -> part.of(all, Arena.ofAuto()))
                        : part.of(all, Arena.ofAuto());
                Initializer own = Initializer.of(made.withName(name));
                constants.put(
                        name,
                        new Initializer(name, own.data(), constant.doc(), constant.metadata(), constant.unknown()));
            }
        });
        Set<String> defined = new HashSet<>(constants.keySet());
        Set<String> used = new HashSet<>();
        for (Node node : nodes) {
            defined.addAll(node.outputs());
            used.addAll(node.uses());
        }
        List<ValueInfo> outputs =
                whole.outputs().stream().filter(o -> defined.contains(o.name())).toList();
        outputs.forEach(o -> used.add(o.name()));
        constants.keySet().retainAll(used);
        return new Graph(
                whole.name(),
                nodes,
                constants,
                whole.inputs(),
                outputs,
                Map.of(), // of the whole model
                whole.doc(),
                whole.metadata(),
                whole.unknown());
    }

    private boolean isCut(String value) {
        return search.cuts().containsKey(value);
    }

    private Cut cut(String value) {
        return Objects.requireNonNull(search.cuts().get(value), value);
    }

    private Shape own(String value) {
        Shape shape = read.type(value).shape();
        Cut cut = search.cuts().getOrDefault(value, positions.get(value));
        return cut == null ? shape : cut.shape(shape, place.rank(), place.ranks());
    }

    private String fresh(String base) {
        String name = base;
        for (int i = 1; !names.add(name); i++) {
            name = base + "_" + i;
        }
        return name;
    }

    private void write(Node node) {
        boolean touched = node.inputs().stream().anyMatch(this::isCut)
                || node.outputs().stream().anyMatch(this::isCut);
        if (!touched) {
            between(node);
            return;
        }
        switch (read.op(node)) {
            case Linear _ when search.isSummed(node) -> summed(node);
            case Linear _
            when !cut(node.output()).isEven(place.ranks()) -> {
                List<Long> columns = new ArrayList<>();
                for (int r = 0; r < place.ranks(); r++) {
                    columns.add(cut(node.output())
                            .shape(read.type(node.output()).shape(), r, place.ranks())
                            .dim(-1));
                }
                nodes.add(entered(node).with(Attribute.of(LinearModule.COLUMNS, columns)));
            }
            case Gather g when search.isSummed(node) -> lookup(node, g);
            case SoftmaxCrossEntropyLoss _ -> loss(node);
            case View view when !view.type().equals(View.DETACH) -> reshaped(node);
            case Expand _ -> nodes.add(node.withInputs(List.of(entering(node, 0), shape(node, own(node.output())))));
            case Split split -> nodes.add(ofParts(node, split));
            case GridQuantize q -> nodes.add(entered(node).with(Attribute.of(QuantizeNode.FACTOR, q.factor())));
            case Reduce r when search.isSummed(node) -> extreme(node, r);
            case Attention a
            when !a.split() ->
                nodes.add(entered(node)
                        .with(Attribute.of("q_num_heads", (long) a.heads() / place.ranks()))
                        .with(Attribute.of("kv_num_heads", (long) a.keyHeads() / place.ranks())));
            case RotaryEmbedding r
            when !r.split() ->
                nodes.add(entered(node).with(Attribute.of("num_heads", (long) r.heads() / place.ranks())));
            case Dropout d -> nodes.add(ownStream(entered(node), d));
            case Op _ -> nodes.add(entered(node));
        }
    }

    /** A node between the layers that are cut: with its positions where it treats each by itself, else with all. */
    private void between(Node node) {
        boolean some = node.inputs().stream().anyMatch(positions::containsKey);
        if (!some) {
            nodes.add(node);
            return;
        }
        Optional<Cut> result = sequence.flatMap(s -> s.result(node, positions));
        List<String> inputs = new ArrayList<>();
        for (int i = 0; i < node.inputs().size(); i++) {
            String input = node.input(i);
            if (result.isEmpty()) {
                inputs.add(positions.containsKey(input) ? exchange(RankExchange.Kind.FROM_SHARES, input) : input);
            } else if (input.isEmpty() || positions.containsKey(input)) {
                inputs.add(input);
            } else {
                Optional<Cut> own = sequence.orElseThrow().input(node, i, result.get());
                inputs.add(own.isPresent() ? shareOf(input, own.get()) : summedGradient(node, i));
            }
        }
        if (result.isEmpty()) {
            nodes.add(node.withInputs(inputs));
            return;
        }
        positions.put(node.output(), result.get());
        switch (read.op(node)) {
            case View view
            when !view.type().equals(View.DETACH) ->
                nodes.add(Node.of(
                        node.name(),
                        "Reshape",
                        List.of(inputs.getFirst(), shape(node, own(node.output()))),
                        List.of(node.output())));
            case Dropout d -> nodes.add(ownStream(node.withInputs(inputs), d));
            case Op _ -> nodes.add(node.withInputs(inputs));
        }
    }

    /** Each rank drops its own elements. */
    private Node ownStream(Node node, Dropout dropout) {
        return node.with(Attribute.of(Dropout.SEED, CounterRandom.key(dropout.seed(), 1L + place.rank())));
    }

    /** A node whose whole inputs enter. */
    private Node entered(Node node) {
        List<String> inputs = new ArrayList<>();
        for (int i = 0; i < node.inputs().size(); i++) {
            inputs.add(entering(node, i));
        }
        return node.withInputs(inputs);
    }

    /** An input of a node that is cut. */
    private String entering(Node node, int i) {
        return positions.containsKey(node.input(i))
                ? exchange(RankExchange.Kind.ENTER_FROM_SHARES, node.input(i))
                : summedGradient(node, i);
    }

    /** An input that is whole: where it has a gradient, that is a sum over ranks. */
    private String summedGradient(Node node, int i) {
        String input = node.input(i);
        boolean learns = parameters.contains(input) || dependent.contains(input);
        boolean is =
                input.isEmpty() || isCut(input) || !learns || !read.op(node).isDifferentiable(i);
        return is ? input : exchange(RankExchange.Kind.ENTER, input);
    }

    /** A value that all ranks get, or get the gradient of. */
    private String exchange(RankExchange.Kind kind, String value) {
        return exchanged.computeIfAbsent(kind + " " + value, _ -> {
            String name = fresh(value + "/" + kind.name().toLowerCase(Locale.ROOT));
            Cut cut = positions.get(value);
            nodes.add(
                    cut == null
                            ? RankExchange.node(name, kind, value, name)
                            : shares(
                                    name,
                                    kind,
                                    value,
                                    name,
                                    cut,
                                    read.type(value).shape(),
                                    true));
            return name;
        });
    }

    /** This rank's positions of a value that is whole. */
    private String shareOf(String value, Cut cut) {
        return exchanged.computeIfAbsent("share " + value, _ -> {
            String name = fresh(value + "/share");
            Shape all = read.type(value).shape();
            nodes.add(shares(name, RankExchange.Kind.TO_SHARES, value, name, cut, all, false));
            return name;
        });
    }

    /** @param whole shape that the shares make up, on the way back or forward */
    private Node shares(
            String name, RankExchange.Kind kind, String x, String y, Cut cut, Shape whole, boolean gathers) {
        long outer = cut.segments().size();
        for (int a = 0; a < cut.axis(); a++) {
            outer *= whole.dim(a);
        }
        List<Long> shares = new ArrayList<>();
        for (int r = 0; r < place.ranks(); r++) {
            shares.add(cut.shape(whole, r, place.ranks()).dim(cut.axis())
                    / cut.segments().size());
        }
        Shape result = gathers ? whole : cut.shape(whole, place.rank(), place.ranks());
        return RankExchange.node(name, kind, x, y, outer, shares, place.rank(), result);
    }

    /** The sum of what ranks have: all of it, or this rank's positions. */
    private void leave(Node node, String part, String sum) {
        Shape shape = read.type(node.output()).shape();
        Optional<Cut> cut = sequence.flatMap(s -> s.of(shape));
        if (cut.isEmpty()) {
            nodes.add(RankExchange.node(node.id() + SUM, RankExchange.Kind.LEAVE, part, sum));
            return;
        }
        positions.put(node.output(), cut.get());
        nodes.add(shares(node.id() + SUM, RankExchange.Kind.LEAVE_TO_SHARES, part, sum, cut.get(), shape, false));
    }

    /** Id of the node that ends with the whole result of a row-parallel Linear. */
    static String summing(Node linear) {
        return linear.id() + (linear.hasInput(2) ? BIAS : SUM);
    }

    /** A row-parallel Linear: its bias is added once, to the sum. */
    private void summed(Node node) {
        String part = fresh(node.output() + "/part");
        nodes.add(node.withInputs(node.inputs().subList(0, 2)).withOutputs(List.of(part)));
        if (!node.hasInput(2)) {
            leave(node, part, node.output());
            return;
        }
        String sum = fresh(node.output() + "/sum");
        leave(node, part, sum);
        String bias = positions.containsKey(node.output()) ? summedGradient(node, 2) : node.input(2);
        nodes.add(Node.of(node.id() + BIAS, "Add", List.of(sum, bias), List.of(node.output())));
    }

    /** The largest or smallest elements of what ranks share. */
    private void extreme(Node node, Reduce reduce) {
        String part = fresh(node.output() + "/part");
        nodes.add(node.withOutputs(List.of(part)));
        RankExchange.Kind kind =
                reduce.kind() == Reduce.Kind.ReduceMax ? RankExchange.Kind.LARGEST : RankExchange.Kind.LEAST;
        nodes.add(RankExchange.node(node.id() + "/all", kind, part, node.output()));
    }

    private void lookup(Node node, Gather gather) {
        Part rows = cut(node.input(0)).part(gather.x().shape(), place.rank(), place.ranks());
        Part.Range own = rows.ranges().getFirst();
        String part = fresh(node.output() + "/part");
        nodes.add(
                CutGather.node(node, own.from(), own.size(), gather.x().shape().dim(0))
                        .withOutputs(List.of(part)));
        leave(node, part, node.output());
    }

    private void loss(Node node) {
        Shape scores = read.type(node.input(0)).shape();
        Part classes = cut(node.input(0)).part(scores, place.rank(), place.ranks());
        nodes.add(CutCrossEntropyLoss.node(node, classes.ranges().getFirst().from(), scores.dim(-1)));
    }

    private void reshaped(Node node) {
        nodes.add(Node.of(
                node.name(),
                "Reshape",
                List.of(entering(node, 0), shape(node, own(node.output()))),
                List.of(node.output())));
    }

    private Node ofParts(Node node, Split split) {
        List<Long> sizes = new ArrayList<>();
        boolean cut = search.cuts().getOrDefault(node.input(0), Cut.of(-1, 1)).axis() == split.axis();
        for (long size : split.sizes()) {
            sizes.add(cut ? size / place.ranks() : size);
        }
        return node.withInputs(List.of(entering(node, 0), longs(node.id() + "/sizes", sizes)))
                .without("num_outputs")
                .without("split");
    }

    private String shape(Node node, Shape shape) {
        return longs(
                node.id() + "/shape", Arrays.stream(shape.toArray()).boxed().toList());
    }

    private String longs(String base, List<Long> numbers) {
        String name = fresh(base);
        constants.put(
                name,
                Initializer.of(Tensor.ofLongs(
                        Arena.ofAuto(),
                        name,
                        Shape.of(numbers.size()),
                        numbers.stream().mapToLong(Long::longValue).toArray())));
        return name;
    }
}
