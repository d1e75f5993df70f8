package dev.octet.trainer.cut;

import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.block.Blocks;
import dev.octet.trainer.autodiff.ReadGraph;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.attention.Attention;
import dev.octet.trainer.op.binary.Binary;
import dev.octet.trainer.op.cast.Cast;
import dev.octet.trainer.op.copy.Concat;
import dev.octet.trainer.op.copy.Slice;
import dev.octet.trainer.op.copy.Split;
import dev.octet.trainer.op.dropout.Dropout;
import dev.octet.trainer.op.expand.Expand;
import dev.octet.trainer.op.gather.Gather;
import dev.octet.trainer.op.gelu.Gelu;
import dev.octet.trainer.op.loss.Reduction;
import dev.octet.trainer.op.loss.SoftmaxCrossEntropyLoss;
import dev.octet.trainer.op.norm.RowNorm;
import dev.octet.trainer.op.product.Linear;
import dev.octet.trainer.op.product.MatMul;
import dev.octet.trainer.op.qat.GridQuantize;
import dev.octet.trainer.op.reduce.Reduce;
import dev.octet.trainer.op.rotary.RotaryEmbedding;
import dev.octet.trainer.op.softmax.Softmax;
import dev.octet.trainer.op.transpose.Transpose;
import dev.octet.trainer.op.trilu.Trilu;
import dev.octet.trainer.op.unary.Unary;
import dev.octet.trainer.op.view.View;
import dev.octet.trainer.op.where.Where;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Which axes are cut. A search begins where a cut ends, at the input of a Linear whose result ranks can add up, and follows the axis through whatever computes it, back to the Linears whose columns make it
 * and on to all that read it. When each operator on the way has a rule for it, all of it is cut together; otherwise all of it stays whole. So attention and feed-forward layers come out
 * as in Megatron, whoever exported them, and what follows no pattern is computed by each rank alike.
 */
final class CutSearch {
    /** A vocabulary of fewer entries for each rank is not worth a message. */
    private static final long LEAST_ENTRIES = 8;

    private final ReadGraph graph;
    private final int ranks;
    private final Map<String, Initializer> constants;
    private final Map<String, Node> producers = new HashMap<>();
    private final Map<String, List<Node>> readers = new HashMap<>();
    private final Map<String, Cut> cuts = new LinkedHashMap<>();
    private final Set<Node> summed = identities();
    private final Set<String> ofVocabulary = new HashSet<>();

    /** Whether layers are done: from then on ranks may have parts of different sizes. */
    private boolean vocabulary;

    private final List<String> failures = new ArrayList<>();
    private final Set<String> coded = new TreeSet<>();

    private Map<String, Cut> trial = Map.of();
    private Set<Node> trialSummed = Set.of();
    private final Deque<String> open = new ArrayDeque<>();
    private String failure = "";

    CutSearch(ReadGraph graph, Map<String, Initializer> constants, int ranks) {
        this.graph = graph;
        this.ranks = ranks;
        this.constants = constants;
        for (Node node : graph.nodes()) {
            node.outputs().forEach(o -> producers.put(o, node));
            node.uses()
                    .forEach(u ->
                            readers.computeIfAbsent(u, _ -> new ArrayList<>()).add(node));
        }
    }

    private static Set<Node> identities() {
        return Collections.newSetFromMap(new IdentityHashMap<>());
    }

    /** Searches. */
    void run() {
        for (Node node : graph.nodes()) {
            if (graph.op(node) instanceof Linear linear && !summed.contains(node)) {
                String x = node.input(0);
                attempt(() -> demand(x, Cut.of(linear.x().shape().rank() - 1, linear.in())));
            }
        }
        Set<String> layers = Set.copyOf(cuts.keySet());
        vocabulary = true;
        for (Node node : graph.nodes()) {
            if (graph.op(node) instanceof SoftmaxCrossEntropyLoss loss) {
                Shape scores = loss.labels().scores().shape();
                if (scores.dim(-1) >= LEAST_ENTRIES * ranks) {
                    attempt(() -> demand(node.input(0), Cut.of(scores.rank() - 1, scores.dim(-1))));
                }
            }
        }
        graph.nodes().stream()
                .filter(n -> graph.op(n) instanceof Gather g
                        && g.axis() == 0
                        && g.x().shape().rank() == 2
                        && constants.containsKey(n.input(0))
                        && !constants.containsKey(n.input(1))
                        && g.size() >= LEAST_ENTRIES * ranks)
                .max(Comparator.comparingLong(n -> type(n.input(0)).shape().dim(0)))
                .ifPresent(n -> attempt(() ->
                        demand(n.input(0), Cut.of(0, type(n.input(0)).shape().dim(0)))));
        ofVocabulary.addAll(cuts.keySet());
        ofVocabulary.removeAll(layers);
    }

    /** Cuts, by value. */
    Map<String, Cut> cuts() {
        return cuts;
    }

    /** Whether the results of a node on all ranks are summands of what it computed alone. */
    boolean isSummed(Node node) {
        return summed.contains(node);
    }

    /** Whether the cut of a value is that of a vocabulary, of which ranks may have different numbers. */
    boolean isOfVocabulary(String value) {
        return ofVocabulary.contains(value);
    }

    /** Weights that would be cut, but that are kept as codes with scales. */
    Set<String> coded() {
        return coded;
    }

    /** Why some layers stay whole. */
    List<String> failures() {
        return failures;
    }

    private void attempt(BooleanSupplier seed) {
        trial = new LinkedHashMap<>();
        trialSummed = identities();
        open.clear();
        failure = "";
        boolean good = seed.getAsBoolean();
        while (good && !open.isEmpty()) {
            good = spread(open.poll());
        }
        if (good) {
            cuts.putAll(trial);
            summed.addAll(trialSummed);
        } else {
            failures.add(failure);
        }
        trial = Map.of();
    }

    private boolean refuse(String why) {
        failure = failure.isEmpty() ? why : failure;
        return false;
    }

    private @Nullable Cut cut(String value) {
        Cut found = trial.get(value);
        return found == null ? cuts.get(value) : found;
    }

    private OperandType type(String value) {
        return graph.type(value);
    }

    /** Cuts a value; false where it is cut otherwise, or cannot be. */
    private boolean demand(String value, Cut wanted) {
        Cut before = cut(value);
        if (before != null) {
            return before.equals(wanted)
                    || refuse("'" + value + "' would be cut by " + before.text() + " and by " + wanted.text());
        }
        OperandType type = graph.typeOrNull(value);
        if (type == null || wanted.axis() >= type.shape().rank() || type.shape().dim(wanted.axis()) != wanted.size()) {
            return refuse("'" + value + "' has no " + wanted.text());
        }
        trial.put(value, wanted);
        open.add(value);
        return true;
    }

    private boolean spread(String value) {
        Node producer = producers.get(value);
        Initializer constant = constants.get(value);
        if (producer == null && constant == null) {
            return refuse("'" + value + "' is an input");
        }
        if (constant != null && constant.tensor().isEmpty()) {
            coded.add(value);
            return refuse("'" + value + "' stays in the codes of its file");
        }
        if (producer != null && !relate(producer)) {
            return false;
        }
        for (Node reader : readers.getOrDefault(value, List.of())) {
            if (!relate(reader)) {
                return false;
            }
        }
        return true;
    }

    /** Cuts the operands of a node as far as it follows from those that are cut; false where it has no rule. */
    private boolean relate(Node node) {
        return switch (graph.op(node)) {
            case Unary _, Cast _, Gelu _, Dropout _, Binary _, Where _ -> broadcast(node);
            case Expand e when e.type().equals("Expand") -> same(node, 0, node.output());
            case Linear linear -> linear(node, linear);
            case View view -> reshaped(node, view);
            case Transpose t -> moved(node, t);
            case Softmax softmax -> alongOthers(node, softmax);
            case RowNorm norm -> leading(node, norm.axis());
            case Trilu trilu -> leading(node, trilu.x().shape().rank() - 2);
            case Attention attention -> attention(node, attention);
            case RotaryEmbedding rotary -> heads(node, rotary.split());
            case Split split -> split(node, split);
            case Concat concat -> concat(node, concat);
            case Slice slice -> slice(node, slice);
            case Gather gather -> gather(node, gather);
            case Reduce reduce -> reduce(node, reduce);
            case MatMul _ -> product(node);
            case GridQuantize q -> quantized(node, q);
            case SoftmaxCrossEntropyLoss loss -> loss(node, loss);
            case Op op -> refuse(op.type() + " '" + node.id() + "' has no rule");
        };
    }

    /** One input and one output with the same axes. */
    private boolean same(Node node, int input, String output) {
        return align(node.input(input), output);
    }

    private boolean broadcast(Node node) {
        for (int turn = 0; turn < 2; turn++) { // an output that is cut by one input cuts the others
            for (String input : node.inputs()) {
                if (!input.isEmpty() && !align(input, node.output())) {
                    return false;
                }
            }
        }
        return true;
    }

    /** Cuts one of two values whose axes are aligned at the end as the other, unless that repeats along the axis. */
    private boolean align(String a, String b) {
        Cut left = cut(a);
        Cut right = cut(b);
        Shape ofA = type(a).shape();
        Shape ofB = type(b).shape();
        int shift = ofB.rank() - ofA.rank();
        if (left != null) {
            int axis = left.axis() + shift;
            boolean repeats = axis < 0 || ofB.dim(axis) != ofA.dim(left.axis());
            return repeats ? refuse("'" + b + "' repeats '" + a + "'") : demand(b, left.on(axis));
        }
        if (right == null) {
            return true;
        }
        int axis = right.axis() - shift;
        boolean repeated = axis < 0 || ofA.dim(axis) != ofB.dim(right.axis());
        return repeated || demand(a, right.on(axis));
    }

    private boolean linear(Node node, Linear linear) {
        int last = linear.x().shape().rank() - 1;
        Cut x = cut(node.input(0));
        Cut y = cut(node.output());
        Cut w = cut(node.input(1));
        int out = linear.transB() ? 0 : 1;
        if (w != null && x == null && y == null) { // a weight that is shared with another layer
            return w.axis() == out ? demand(node.output(), w.on(last)) : demand(node.input(0), w.on(last));
        }
        if (x != null && y != null) {
            return refuse("both sides of '" + node.id() + "' would be cut");
        }
        Cut side = x == null ? y : x;
        if (side == null) {
            return !node.hasInput(2)
                    || cut(node.input(2)) == null
                    || refuse("the bias of '" + node.id() + "' would be cut alone");
        }
        if (side.axis() != last) {
            return refuse("samples or positions of '" + node.id() + "' would be cut");
        }
        if (x != null) {
            trialSummed.add(node);
            return (!node.hasInput(2) || cut(node.input(2)) == null || refuse("the bias of '" + node.id() + "' is cut"))
                    && demand(node.input(1), x.on(1 - out));
        }
        return demand(node.input(1), side.on(out)) && (!node.hasInput(2) || demand(node.input(2), side.on(0)));
    }

    /**
     * What becomes of a cut in another shape; null where ranks would have no ranges of one axis, or not those that belong to their parts. A layer that ranks cannot share out evenly is
     * cut all the same, so that it is refused and not left whole.
     */
    private @Nullable Cut reshaped(Cut cut, Shape from, Shape to) {
        Cut found = Reshaped.cut(cut, from, to);
        boolean moves = found != null && !found.segments().equals(cut.segments());
        return vocabulary && moves && !cut.isEven(ranks) ? null : found;
    }

    private boolean reshaped(Node node, View view) {
        if (view.x().shape().equals(view.shape())) {
            return same(node, 0, node.output());
        }
        Cut x = cut(node.input(0));
        Cut y = cut(node.output());
        if (x != null) {
            Cut to = reshaped(x, view.x().shape(), view.shape());
            return to == null ? refuse(node.id() + " joins what is cut") : demand(node.output(), to);
        }
        if (y != null) {
            Cut from = reshaped(y, view.shape(), view.x().shape());
            return from == null ? refuse(node.id() + " splits what is cut") : demand(node.input(0), from);
        }
        return true;
    }

    private boolean moved(Node node, Transpose t) {
        Cut x = cut(node.input(0));
        Cut y = cut(node.output());
        if (x != null) {
            return demand(node.output(), x.on(t.order().indexOf(x.axis())));
        }
        return y == null || demand(node.input(0), y.on(t.order().get(y.axis())));
    }

    private boolean alongOthers(Node node, Softmax softmax) {
        Shape shape = softmax.x().shape();
        int first = 0;
        long before = 1;
        while (before < softmax.outer() || (shape.dim(first) == 1 && first + 1 < shape.rank())) {
            before *= shape.dim(first);
            first++;
        }
        int end = first;
        long size = 1;
        while (size < softmax.size()) {
            size *= shape.dim(end);
            end++;
        }
        Cut either = either(node);
        if (either == null) {
            return true;
        }
        boolean summed = either.axis() >= first && either.axis() < end;
        return summed ? refuse(node.id() + " sums over what is cut") : same(node, 0, node.output());
    }

    private @Nullable Cut either(Node node) {
        Cut x = cut(node.input(0));
        return x == null ? cut(node.output()) : x;
    }

    /** An operator that treats the axes from one on together. */
    private boolean leading(Node node, int from) {
        Cut either = either(node);
        for (int i = 1; i < node.inputs().size(); i++) {
            if (cut(node.input(i)) != null) {
                return refuse("'" + node.input(i) + "' would be cut");
            }
        }
        return either == null
                || (either.axis() >= from
                        ? refuse(node.id() + " sums over what is cut")
                        : same(node, 0, node.output()));
    }

    /** Whether a cut gives each rank whole heads. */
    private boolean isOfHeads(Node node, @Nullable Cut cut, boolean split) {
        return cut == null
                || (cut.axis() == (split ? 1 : 2) && cut.segments().size() == 1)
                || refuse(node.id() + " would be cut otherwise than by heads");
    }

    private boolean attention(Node node, Attention a) {
        int axis = a.split() ? 1 : 2;
        boolean any = false;
        for (String operand : List.of(node.input(0), node.input(1), node.input(2), node.output())) {
            Cut cut = cut(operand);
            any |= cut != null;
            if (!isOfHeads(node, cut, a.split())) {
                return false;
            }
        }
        if (node.hasInput(3)) {
            Shape mask = type(node.input(3)).shape();
            boolean ofHeads = mask.rank() >= 3 && mask.dim(-3) > 1;
            Cut cut = cut(node.input(3));
            if (cut != null && !(ofHeads && cut.equals(Cut.of(mask.rank() - 3, mask.dim(-3))))) {
                return refuse("the mask of " + node.id() + " would be cut otherwise than by heads");
            }
            any |= cut != null;
            if (any && ofHeads && !demand(node.input(3), Cut.of(mask.rank() - 3, mask.dim(-3)))) {
                return false;
            }
        }
        if (!any) {
            return true;
        }
        for (String operand : List.of(node.input(0), node.input(1), node.input(2), node.output())) {
            if (!demand(operand, Cut.of(axis, type(operand).shape().dim(axis)))) {
                return false;
            }
        }
        return true;
    }

    private boolean heads(Node node, boolean split) {
        Cut either = either(node);
        return isOfHeads(node, either, split) && same(node, 0, node.output());
    }

    private boolean split(Node node, Split split) {
        Cut x = cut(node.input(0));
        List<Cut> parts = node.outputs().stream().map(this::cut).toList();
        Cut part = parts.stream().filter(p -> p != null).findFirst().orElse(null);
        Cut of = x == null ? part : x;
        if (of == null) {
            return true;
        }
        if (of.axis() != split.axis()) {
            boolean good = demand(node.input(0), of);
            for (String output : node.outputs()) {
                good = good && (output.isEmpty() || demand(output, of));
            }
            return good;
        }
        List<Long> all = new ArrayList<>();
        List<Long> left = new ArrayList<>(x == null ? List.of() : x.segments());
        for (int i = 0; i < split.sizes().size(); i++) {
            long size = split.sizes().get(i);
            Cut own = i < parts.size() ? parts.get(i) : null;
            List<Long> segments = own == null ? List.of(size) : own.segments();
            if (x != null && own == null) { // the segments that lie in this part
                segments = new ArrayList<>();
                for (long sum = 0; sum < size && !left.isEmpty(); ) {
                    long next = left.removeFirst();
                    segments.add(next);
                    sum += next;
                }
            } else if (x != null) {
                left.subList(0, Math.min(left.size(), segments.size())).clear();
            }
            Cut wanted = new Cut(split.axis(), segments);
            if (!node.output(i).isEmpty() && !demand(node.output(i), wanted)) {
                return false;
            }
            all.addAll(segments);
        }
        return demand(node.input(0), new Cut(split.axis(), all));
    }

    private boolean concat(Node node, Concat concat) {
        Cut of = cut(node.output());
        for (String input : node.inputs()) {
            of = of == null ? cut(input) : of;
        }
        if (of == null) {
            return true;
        }
        if (of.axis() == concat.axis()) {
            return refuse(node.id() + " joins what is cut");
        }
        boolean good = demand(node.output(), of);
        for (String input : node.inputs()) {
            good = good && demand(input, of);
        }
        return good;
    }

    private boolean slice(Node node, Slice slice) {
        Cut either = either(node);
        if (either == null) {
            return true;
        }
        int axis = either.axis();
        boolean whole = slice.x().shape().dim(axis) == slice.shape().dim(axis)
                && slice.steps().get(axis) == 1;
        return whole ? same(node, 0, node.output()) : refuse(node.id() + " takes a part of what is cut");
    }

    private boolean gather(Node node, Gather gather) {
        Cut x = cut(node.input(0));
        Cut y = cut(node.output());
        if (cut(node.input(1)) != null) {
            return refuse("what " + node.id() + " looks up would be cut");
        }
        int more = type(node.input(1)).shape().rank() - 1;
        if (x != null && x.axis() == gather.axis()) {
            if (gather.axis() > 0 || gather.x().shape().rank() != 2 || !constants.containsKey(node.input(0))) {
                return refuse(node.id() + " looks up what is cut");
            }
            trialSummed.add(node);
            return y == null || refuse("both sides of '" + node.id() + "' would be cut");
        }
        if (x != null) {
            return demand(node.output(), x.on(x.axis() < gather.axis() ? x.axis() : x.axis() + more));
        }
        if (y == null) {
            return true;
        }
        if (y.axis() >= gather.axis() && y.axis() <= gather.axis() + more) {
            return refuse("what " + node.id() + " looks up would be cut");
        }
        return demand(node.input(0), y.on(y.axis() < gather.axis() ? y.axis() : y.axis() - more));
    }

    private boolean reduce(Node node, Reduce reduce) {
        Cut x = cut(node.input(0));
        Cut y = cut(node.output());
        List<Integer> kept = new ArrayList<>();
        for (int i = 0; i < reduce.x().shape().rank(); i++) {
            if (reduce.folded().dim(i) == reduce.x().shape().dim(i)) {
                kept.add(i);
            }
        }
        boolean keepsAll = reduce.shape().rank() == reduce.x().shape().rank();
        if ((x != null || y != null)
                && !keepsAll
                && kept.size() != reduce.shape().rank()) {
            return refuse(node.id() + " drops axes of length 1");
        }
        if (x != null) {
            int at = kept.indexOf(x.axis());
            if (at < 0 && isExtreme(reduce) && isDetached(node.output())) {
                trialSummed.add(node);
                return y == null || refuse("both sides of '" + node.id() + "' would be cut");
            }
            return at < 0
                    ? refuse(node.id() + " sums over what is cut")
                    : demand(node.output(), x.on(keepsAll ? x.axis() : at));
        }
        return y == null || demand(node.input(0), y.on(keepsAll ? y.axis() : kept.get(y.axis())));
    }

    private static boolean isExtreme(Reduce reduce) {
        return reduce.kind() == Reduce.Kind.ReduceMax || reduce.kind() == Reduce.Kind.ReduceMin;
    }

    /** Whether no gradient flows to a value, as to ranges that scales follow from. */
    private boolean isDetached(String value) {
        List<Node> reading = readers.getOrDefault(value, List.of());
        return !reading.isEmpty()
                && reading.stream()
                        .allMatch(n ->
                                graph.op(n) instanceof View view && view.type().equals(View.DETACH));
    }

    /** Fake quantisation: steps are cut with the blocks that they are of; a block that several ranks have parts of has the same step on all. */
    private boolean quantized(Node node, GridQuantize quantize) {
        if (!same(node, GridQuantize.X, node.output())) {
            return false;
        }
        Cut x = cut(node.input(GridQuantize.X));
        Blocks blocks = quantize.blocks();
        @Nullable Cut ofSteps = null;
        if (x != null) {
            Shape matrix = Shape.of(blocks.rows(), blocks.cols());
            Cut own = quantize.x().shape().equals(matrix)
                    ? x
                    : reshaped(x, quantize.x().shape(), matrix);
            if (own == null) {
                return refuse("what '" + node.id() + "' quantises would be cut otherwise than by rows or columns");
            }
            long block = own.axis() == 0 ? blocks.blockRows() : blocks.blockCols();
            if (block < own.size()) {
                long each = block == 1 ? 1 : block * ranks;
                if (own.segments().stream().anyMatch(s -> s % each != 0)) {
                    return refuse("groups of " + block + " of '" + node.id() + "' would be cut");
                }
                ofSteps = new Cut(
                        own.axis(), own.segments().stream().map(s -> s / block).toList());
            }
        }
        for (int i : new int[] {GridQuantize.STEP, GridQuantize.OFFSET, GridQuantize.PRE}) {
            if (node.hasInput(i) && !steps(node.input(i), ofSteps, blocks)) {
                return false;
            }
        }
        return true;
    }

    /** @param wanted cut of the grid of blocks; null for none */
    private boolean steps(String steps, @Nullable Cut wanted, Blocks blocks) {
        if (wanted == null) {
            return cut(steps) == null || refuse("'" + steps + "' would be cut alone");
        }
        Shape grid = Shape.of(
                Math.ceilDiv(blocks.rows(), blocks.blockRows()), Math.ceilDiv(blocks.cols(), blocks.blockCols()));
        Shape shape = type(steps).shape();
        Cut own = shape.equals(grid) ? wanted : reshaped(wanted, grid, shape);
        return own == null ? refuse("'" + steps + "' would be cut in pieces") : demand(steps, own);
    }

    /** Products of single samples and heads are cut by these. */
    private boolean product(Node node) {
        int rank = type(node.output()).shape().rank();
        for (String operand : List.of(node.input(0), node.input(1), node.output())) {
            Cut cut = cut(operand);
            int ofOperand = type(operand).shape().rank();
            if (cut != null && (ofOperand != rank || cut.axis() >= ofOperand - 2)) {
                return refuse(node.id() + " would be cut otherwise than by samples or heads");
            }
        }
        return broadcast(node);
    }

    private boolean loss(Node node, SoftmaxCrossEntropyLoss loss) {
        Cut scores = cut(node.input(0));
        boolean good = cut(node.input(1)) == null
                && cut(node.output()) == null
                && (scores == null
                        || (scores.axis() == type(node.input(0)).shape().rank() - 1
                                && scores.segments().size() == 1
                                && node.isOctet("SoftmaxCrossEntropyLoss")
                                && !loss.givesLogarithms()
                                && !node.hasInput(2)
                                && loss.labels().reduction() != Reduction.SUM));
        return good || refuse("the loss '" + node.id() + "' needs all scores");
    }
}
