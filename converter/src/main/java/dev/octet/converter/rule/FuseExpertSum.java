package dev.octet.converter.rule;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.OptionalDouble;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * {@code ExpertSum(weights, rows, places, ...)}, with {@code ExpertRows} and a {@code Linear} for each expert where the file has them for all together.
 *
 * <ol>
 *   <li>Octet's own spelling: {@code ReduceSum(Reshape(ScatterND(zeros, places, rows)) * weights)} over {@code ExpertRows}.
 *   <li>transformers' {@code batched_mm}: each choice is a row of its token, multiplied with the weight that {@code Gather} or {@code GatherND} brings by the number of its
 *       expert out of a constant [experts, ., .].
 *   <li>transformers' {@code grouped_mm} as its own exporter spells it: rows are sorted by expert ({@code TopK}), each {@code Slice} of them is multiplied with its
 *       expert's constant, a {@code Concat} joins the results, and {@code GatherND} by the inverse order brings them back.
 * </ol>
 *
 * <p>In cases 2 and 3 what lies between the products works on each row alone, and is written once for each expert. A product whose result is only cut into two halves
 * becomes two Linears, as gate and up are in files.
 */
final class FuseExpertSum implements FusionRule {
    /** Operators that make each row of their result of the same row of their operand. */
    private static final Set<String> BY_ROW = Set.of(
            "Sigmoid", "Tanh", "Relu", "Erf", "Mul", "Add", "Sub", "Div", "Min", "Max", "Clip", "Neg", "Slice", "Split",
            "Cast", "Pow");

    /** Nodes within an expert; a real one has some ten. */
    private static final int MOST_NODES = 64;

    @Override
    public String name() {
        return CanonicalOps.EXPERT_SUM;
    }

    @Override
    public Outcome apply(GraphFacts g, Node anchor) {
        if (!anchor.is("ReduceSum") || anchor.intAttribute("keepdims", 1) != 0) {
            return Outcome.NO_MATCH;
        }
        Outcome own = ofOctet(g, anchor);
        return own instanceof Outcome.NoMatch ? ofRows(g, anchor) : own;
    }

    // case 1
    private static Outcome ofOctet(GraphFacts g, Node anchor) {
        Node weighted = g.producer(anchor.input(0), "Mul");
        Node ordered = weighted == null ? null : g.producer(weighted.input(0), "Reshape");
        Node scatter = ordered == null ? null : g.producer(ordered.input(0), "ScatterND");
        Node weights = weighted == null ? null : g.producer(weighted.input(1), "Unsqueeze");
        Node at = scatter == null ? null : g.producer(scatter.input(1), "Unsqueeze");
        Node places = at == null ? null : g.producer(at.input(0), "Concat");
        Node rows = scatter == null ? null : g.producer(scatter.input(2), "Concat");
        if (weights == null
                || places == null
                || rows == null
                || places.inputs().size() != rows.inputs().size()) {
            return Outcome.NO_MATCH;
        }
        List<String> inputs = new ArrayList<>(List.of(weights.input(0)));
        for (int i = 0; i < rows.inputs().size(); i++) {
            inputs.add(rows.input(i));
            inputs.add(places.input(i));
        }
        Long size = width(g, rows.input(0));
        if (size == null) {
            return Outcome.refused(anchor, "how wide the results of experts are is not known");
        }
        return new Outcome.Fused(List.of(anchor), sum(anchor, inputs, size), List.of());
    }

    private static Node sum(Node anchor, List<String> inputs, long size) {
        return Node.of(
                        ModulePath.nameFor(anchor),
                        CanonicalOps.EXPERT_SUM,
                        Node.OCTET_DOMAIN,
                        inputs,
                        List.of(anchor.output()),
                        Attribute.of("size", size))
                .withMetadata(ModulePath.metadataFor(anchor));
    }

    /** Columns of what an expert makes: those of the Linear behind it. */
    private static @Nullable Long width(GraphFacts g, String rows) {
        Node n = g.made(rows);
        if (n == null || !n.isOctet(CanonicalOps.LINEAR)) {
            return null;
        }
        TensorSpec w = g.matrix(n.input(1));
        return w == null ? null : w.shape().dim(n.intAttribute("transB", 0) != 0 ? 0 : 1);
    }

    /** The matrices of all experts. */
    private record Weights(List<Tensor> of, boolean outIn) {
        long out() {
            return of.getFirst().shape().dim(outIn ? 0 : 1);
        }
    }

    /** What a value is within an expert, before it is written for each. */
    private sealed interface Row {}

    /** The tokens' rows themselves. */
    private record Chosen() implements Row {}

    /** A product of rows with their expert's matrix, and its bias. */
    private record Product(
            Node node, String x, Weights weights, @Nullable List<Tensor> bias) implements Row {}

    /** A node on each row alone. */
    private record ByRow(Node node) implements Row {}

    // cases 2 and 3
    private static Outcome ofRows(GraphFacts g, Node anchor) {
        Node split = g.producer(anchor.input(0), "Reshape");
        if (split == null) {
            return Outcome.NO_MATCH;
        }
        long[] shape = g.longs(split.input(1));
        if (shape.length != 3 || shape[1] < 1 || shape[2] < 1) {
            return Outcome.NO_MATCH;
        }
        Node back = g.producer(split.input(0), "GatherND");
        Node weighted = back == null ? g.producer(split.input(0), "Mul") : g.producer(back.input(0), "Mul");
        if (weighted == null) {
            return Outcome.NO_MATCH;
        }
        for (int i = 0; i < 2; i++) {
            Node column = g.producer(weighted.input(1 - i), "Unsqueeze");
            if (column != null) {
                Experts experts = new Experts(g, anchor, shape[1], back != null);
                Outcome found = experts.fuse(weighted.input(i), column.input(0));
                if (!(found instanceof Outcome.NoMatch)) {
                    return found;
                }
            }
        }
        return Outcome.NO_MATCH;
    }

    /** The search for the parts of one mixture. */
    private static final class Experts {
        private final GraphFacts g;
        private final Node anchor;
        private final long choices;
        private final boolean sorted;
        private final Map<String, Row> rows = new HashMap<>();
        private @Nullable String tokens;
        private @Nullable String chosen;
        private @Nullable String order;

        Experts(GraphFacts g, Node anchor, long choices, boolean sorted) {
            this.g = g;
            this.anchor = anchor;
            this.choices = choices;
            this.sorted = sorted;
        }

        Outcome fuse(String result, String weight) {
            if (!read(result, MOST_NODES) || tokens == null || chosen == null) {
                return Outcome.NO_MATCH;
            }
            String weights = weights(weight);
            if (weights == null) {
                return Outcome.NO_MATCH;
            }
            int count = 0;
            long size = 0;
            for (Row row : rows.values()) {
                if (row instanceof Product p) {
                    if (count != 0 && count != p.weights().of().size()) {
                        return Outcome.refused(anchor, "products have different numbers of experts");
                    }
                    count = p.weights().of().size();
                }
            }
            if (rows.get(plain(result)) instanceof Product p) {
                size = p.weights().out();
            }
            return count == 0 || size == 0
                    ? Outcome.refused(anchor, "what experts give is not the result of a product")
                    : new Writer(this, count).write(result, weights, size);
        }

        /** The weights of choices [.., choices], of which {@code value} is each one, in the rows' order. */
        private @Nullable String weights(String value) {
            String v = value;
            if (sorted) {
                Node gather = g.producer(v, "GatherND", "Gather");
                if (gather == null || order == null || !isIndex(gather.input(1), order)) {
                    return null;
                }
                v = gather.input(0);
            }
            Node flat = g.producer(v, "Reshape");
            return flat == null ? null : flat.input(0);
        }

        private boolean isIndex(String value, String wanted) {
            Node column = g.producer(value, "Unsqueeze");
            return g.bare(column == null ? value : column.input(0)).equals(g.bare(wanted));
        }

        /** A value without axes that are put in and taken out again. */
        private String plain(String value) {
            String v = g.bare(value);
            for (int i = 0; i < MOST_NODES; i++) {
                Node out = g.producer(v, "Squeeze");
                Node in = out == null ? null : g.producer(out.input(0), "Unsqueeze");
                if (out == null
                        || in == null
                        || !in.hasInput(1)
                        || !out.hasInput(1)
                        || !Arrays.equals(g.longs(in.input(1)), g.longs(out.input(1)))) {
                    return v;
                }
                v = g.bare(in.input(0));
            }
            return v;
        }

        /** Whether a value is made of rows alone. */
        private boolean read(String of, int left) {
            String value = plain(of);
            if (rows.containsKey(value)) {
                return true;
            }
            if (left == 0 || rows.size() > MOST_NODES) {
                return false;
            }
            Row row = sorted ? sortedRow(value) : batchedRow(value);
            if (row == null) {
                return false;
            }
            rows.put(value, row);
            return switch (row) {
                case Chosen _ -> true;
                case Product p -> read(p.x(), left - 1);
                case ByRow b -> {
                    boolean all = true;
                    boolean any = false;
                    for (String input : b.node().inputs()) {
                        if (!input.isEmpty() && g.constant(input) == null) {
                            any = true;
                            all &= read(input, left - 1);
                        }
                    }
                    b.node().outputs().forEach(o -> rows.put(o, row));
                    yield any && all;
                }
            };
        }

        private @Nullable Row byRow(String value) {
            Node n = g.made(value);
            return n != null && n.domain().isEmpty() && BY_ROW.contains(n.opType()) ? new ByRow(n) : null;
        }

        // case 2
        private @Nullable Row batchedRow(String value) {
            if (isRepeated(value)) {
                return new Chosen();
            }
            Node add = g.producer(value, "Add");
            for (int i = 0; add != null && i < 2; i++) {
                Product product = batched(add.input(i));
                List<Tensor> bias = product == null ? null : gathered(add.input(1 - i), 2);
                if (product != null && bias != null) {
                    return new Product(add, product.x(), product.weights(), bias);
                }
            }
            Product product = batched(value);
            return product != null ? product : byRow(value);
        }

        /** {@code Squeeze(w · Unsqueeze(x, -1))} or {@code Squeeze(Unsqueeze(x, 1) · w)}. */
        private @Nullable Product batched(String value) {
            Node squeeze = g.producer(value, "Squeeze");
            Node product = squeeze == null ? null : g.producer(squeeze.input(0), "MatMul");
            if (product == null) {
                return null;
            }
            for (int i = 0; i < 2; i++) {
                List<Tensor> w = gathered(product.input(i), 3);
                Node x = w == null ? null : g.producer(product.input(1 - i), "Unsqueeze");
                if (w != null && x != null) {
                    return new Product(product, x.input(0), new Weights(w, i == 0), null);
                }
            }
            return null;
        }

        /** The parts, by expert, of a constant of so many axes of which {@code value} is each choice's. */
        private @Nullable List<Tensor> gathered(String value, int rank) {
            Node gather = g.producer(value, "Gather", "GatherND");
            if (gather == null || gather.intAttribute("axis", 0) != 0 || gather.intAttribute("batch_dims", 0) != 0) {
                return null;
            }
            GraphFacts.Constant c = g.constant(gather.input(0));
            Node column = gather.is("GatherND") ? g.producer(gather.input(1), "Unsqueeze") : null;
            if (c == null || c.tensor().shape().rank() != rank || (gather.is("GatherND") && column == null)) {
                return null;
            }
            String ids = g.bare(column == null ? gather.input(1) : column.input(0));
            if (chosen != null && !chosen.equals(ids)) {
                return null;
            }
            chosen = ids;
            return parts(c.tensor());
        }

        private static List<Tensor> parts(Tensor whole) {
            long[] dims = whole.shape().toArray();
            long[] own = new long[dims.length - 1];
            System.arraycopy(dims, 1, own, 0, own.length);
            TensorSpec spec = new TensorSpec(whole.name(), whole.dtype(), Shape.of(own));
            List<Tensor> parts = new ArrayList<>();
            for (long e = 0; e < dims[0]; e++) {
                parts.add(new Tensor(spec, whole.bytes().asSlice(e * spec.byteSize(), spec.byteSize())));
            }
            return parts;
        }

        /** Each token's row as often as it has choices. */
        private boolean isRepeated(String value) {
            Node flat = g.producer(value, "Reshape", "Flatten");
            Node spread = flat == null ? null : g.producer(flat.input(0), "Expand", "Tile");
            Node axis = spread == null ? null : g.producer(spread.input(0), "Unsqueeze");
            Node again = spread == null ? null : g.producer(spread.input(0), "Reshape");
            if (again != null && again.input(0).equals(value)) {
                return false;
            }
            long[] axes = axis == null ? new long[0] : g.longs(axis.input(1));
            if (spread == null || axis == null || axes.length != 1 || axes[0] != 1) {
                return false;
            }
            long[] times = g.longs(spread.input(1));
            if (times.length == 3 && times[1] != choices) {
                return false;
            }
            if (tokens != null && !tokens.equals(axis.input(0))) {
                return false;
            }
            tokens = axis.input(0);
            return true;
        }

        // case 3
        private @Nullable Row sortedRow(String value) {
            Node gather = g.producer(value, "GatherND");
            Node column = gather == null ? null : g.producer(gather.input(1), "Unsqueeze");
            if (gather != null && column != null) {
                return isSorted(column.input(0)) && isFirst(gather.input(0)) ? new Chosen() : null;
            }
            Node add = g.producer(value, "Add");
            for (int i = 0; add != null && i < 2; i++) {
                Node join = g.producer(plain(add.input(i)), "Concat");
                Product product = join == null ? null : grouped(join);
                List<Tensor> bias = product == null ? null : sortedBias(add.input(1 - i));
                if (product != null && bias != null) {
                    return new Product(add, product.x(), product.weights(), bias);
                }
            }
            Node join = g.producer(value, "Concat");
            return join == null ? byRow(value) : grouped(join);
        }

        /** The parts, by expert, of a constant that is brought by the sorted numbers of experts. */
        private @Nullable List<Tensor> sortedBias(String value) {
            Node gather = g.producer(value, "GatherND", "Gather");
            GraphFacts.Constant c = gather == null ? null : g.constant(gather.input(0));
            if (gather == null || c == null || c.tensor().shape().rank() != 2) {
                return null;
            }
            Node column = g.producer(gather.input(1), "Unsqueeze");
            String ids = g.bare(column == null ? gather.input(1) : column.input(0));
            Node sort = g.producer(ids, "TopK");
            boolean isSorted = sort != null && sort.intAttribute("largest", 1) == 0 && ids.equals(sort.output(0));
            return isSorted ? parts(c.tensor()) : null;
        }

        private boolean isFirst(String value) {
            if (tokens != null && !tokens.equals(value)) {
                return false;
            }
            tokens = value;
            return true;
        }

        /** Whether {@code value} is the token of each choice in the order of experts: that order divided by the choices of a token, rounded down. */
        private boolean isSorted(String value) {
            Node down = g.producer(value, "Sub");
            Node div = g.producer(down == null ? value : down.input(0), "Div");
            OptionalDouble by = div == null ? OptionalDouble.empty() : g.scalar(div.input(1));
            if (div == null || by.isEmpty() || by.getAsDouble() != choices) {
                return false;
            }
            Node sort = g.producer(div.input(0), "TopK");
            if (sort == null
                    || sort.outputs().size() != 2
                    || !g.bare(div.input(0)).equals(sort.output(1))
                    || sort.intAttribute("largest", 1) != 0) {
                return false;
            }
            order = sort.output(1);
            chosen = g.bare(sort.input(0));
            return true;
        }

        /** The products of slices, joined; the slices end where each expert's rows do. */
        private @Nullable Product grouped(Node join) {
            List<Tensor> weights = new ArrayList<>();
            String x = null;
            String ends = null;
            boolean outIn = false;
            for (int e = 0; e < join.inputs().size(); e++) {
                Node product = g.made(join.input(e));
                boolean isLinear = product != null && product.isOctet(CanonicalOps.LINEAR);
                if (product == null || (!isLinear && !product.is("MatMul")) || product.hasInput(2)) {
                    return null;
                }
                GraphFacts.Constant w = g.constant(product.input(1));
                Node slice = g.producer(product.input(0), "Slice");
                Node end = slice == null ? null : g.producer(slice.input(2), "Slice");
                long[] from = end == null ? new long[0] : g.longs(end.input(1));
                if (w == null || w.tensor().shape().rank() != 2 || slice == null || end == null) {
                    return null;
                }
                boolean own = isLinear && product.intAttribute("transB", 0) != 0;
                boolean fits = from.length == 1
                        && from[0] == e
                        && (x == null || x.equals(slice.input(0)))
                        && (ends == null || ends.equals(end.input(0)))
                        && (e == 0 || own == outIn);
                if (!fits) {
                    return null;
                }
                x = slice.input(0);
                ends = end.input(0);
                outIn = own;
                weights.add(w.tensor());
            }
            Node cast = ends == null ? null : g.producer(ends, "Cast", "CumSum");
            Node cumulative = cast != null && cast.is("Cast") ? g.producer(cast.input(0), "CumSum") : cast;
            return x == null || weights.isEmpty() || cumulative == null
                    ? null
                    : new Product(join, x, new Weights(weights, outIn), null);
        }
    }

    /** Writes what was found once for each expert. */
    private static final class Writer {
        private final Experts experts;
        private final GraphFacts g;
        private final int count;
        private final String module;
        private final List<Node> nodes = new ArrayList<>();
        private final List<Initializer> constants = new ArrayList<>();
        private final Map<Row, Integer> numbers = new HashMap<>();

        Writer(Experts experts, int count) {
            this.experts = experts;
            this.g = experts.g;
            this.count = count;
            ModulePath path = ModulePath.of(experts.anchor);
            String dotted = path == null ? experts.anchor.output() : path.dotted();
            this.module = dotted.endsWith("experts") ? dotted : dotted + ".experts";
        }

        Outcome write(String result, String weights, long size) {
            Node anchor = experts.anchor;
            List<String> inputs = new ArrayList<>();
            inputs.add(weights);
            for (int e = 0; e < count; e++) {
                String rows = g.freshName(module + "." + e + ".rows");
                String places = g.freshName(module + "." + e + ".places");
                nodes.add(Node.of(
                        path(module + "." + e) + "/rows",
                        CanonicalOps.EXPERT_ROWS,
                        Node.OCTET_DOMAIN,
                        List.of(String.valueOf(experts.tokens), String.valueOf(experts.chosen)),
                        List.of(rows, places),
                        Attribute.of("expert", e),
                        Attribute.of("choices", experts.choices)));
                inputs.add(value(result, e, rows, new HashMap<>()));
                inputs.add(places);
            }
            return new Outcome.Fused(List.of(anchor), sum(anchor, inputs, size), nodes, constants);
        }

        /** The name of a value for one expert. */
        private String value(String of, int e, String rows, Map<String, String> known) {
            String name = experts.rows.containsKey(of) ? of : experts.plain(of);
            String done = known.get(name);
            if (done != null) {
                return done;
            }
            Row row = experts.rows.get(name);
            if (row == null) {
                return of; // a constant
            }
            return switch (row) {
                case Chosen _ -> rows;
                case Product p -> {
                    String made = linear(p, role(p), e, value(p.x(), e, rows, known), null);
                    known.put(name, made);
                    yield made;
                }
                case ByRow b -> {
                    if (isHalving(b.node())
                            && experts.rows.get(experts.plain(b.node().input(0))) instanceof Product p
                            && p.bias() == null) {
                        String x = value(p.x(), e, rows, known);
                        for (int half = 0; half < 2; half++) {
                            known.put(
                                    b.node().output(half), linear(p, half == 0 ? "gate_proj" : "up_proj", e, x, half));
                        }
                        yield Objects.requireNonNull(known.get(name));
                    }
                    List<String> inputs = b.node().inputs().stream()
                            .map(i -> i.isEmpty() ? i : value(i, e, rows, known))
                            .toList();
                    List<String> outputs = new ArrayList<>();
                    for (String o : b.node().outputs()) {
                        outputs.add(g.freshName(o + "/" + e));
                        known.put(o, outputs.getLast());
                    }
                    nodes.add(b.node()
                            .withName(b.node().id() + "/" + e)
                            .withInputs(inputs)
                            .withOutputs(outputs));
                    yield Objects.requireNonNull(known.get(name));
                }
            };
        }

        private static boolean isHalving(Node n) {
            return n.is("Split") && n.outputs().size() == 2 && !n.hasInput(1);
        }

        /** What files call the Linear: the last one is {@code down_proj}. */
        private String role(Product p) {
            boolean last = numbers.computeIfAbsent(p, _ -> numbers.size()) == 0;
            return last ? "down_proj" : "gate_up_proj";
        }

        /** @param half which half of its results; null for all */
        private String linear(Product p, String role, int e, String x, @Nullable Integer half) {
            boolean outIn = p.weights().outIn();
            Tensor w = p.weights().of().get(e);
            String name = module + "." + e + "." + role;
            // matrices that lie as nn.Linear's have its name
            String weight = constant(name + (outIn ? ".weight" : ""), half == null ? w : half(w, outIn, half));
            List<String> inputs = new ArrayList<>(List.of(x, weight));
            List<Tensor> bias = p.bias();
            if (bias != null) {
                inputs.add(constant(name + "_bias", bias.get(e)));
            }
            String y = g.freshName(name + "_output");
            nodes.add(Node.of(
                    path(name),
                    CanonicalOps.LINEAR,
                    Node.OCTET_DOMAIN,
                    inputs,
                    List.of(y),
                    Attribute.of("transB", outIn ? 1 : 0)));
            return y;
        }

        /** As {@code /model/layers.0/mlp} for {@code model.layers.0.mlp}. */
        private static String path(String module) {
            return "/" + module.replaceAll("\\.(?!\\d+(\\.|$))", "/");
        }

        private String constant(String name, Tensor values) {
            String fresh = g.freshName(name);
            constants.add(
                    Initializer.of(new Tensor(new TensorSpec(fresh, values.dtype(), values.shape()), values.bytes())));
            return fresh;
        }

        /** Rows of a matrix [out, in], which are a view; or columns of one [in, out], which are copied. */
        private static Tensor half(Tensor w, boolean outIn, int half) {
            long rows = w.shape().dim(0);
            long cols = w.shape().dim(1);
            if (outIn) {
                TensorSpec spec = new TensorSpec(w.name(), w.dtype(), Shape.of(rows / 2, cols));
                return new Tensor(spec, w.bytes().asSlice(half * spec.byteSize(), spec.byteSize()));
            }
            TensorSpec spec = new TensorSpec(w.name(), w.dtype(), Shape.of(rows, cols / 2));
            Tensor copy = Tensor.allocate(Arena.ofAuto(), spec);
            long width = spec.byteSize() / rows;
            for (long r = 0; r < rows; r++) {
                copy.bytes().asSlice(r * width, width).copyFrom(w.bytes().asSlice((2 * r + half) * width, width));
            }
            return copy;
        }
    }
}
