package dev.octet.converter.rule;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * {@code Attention(q, k, v, mask?)} of ONNX opset 23, operands [batch, heads, sequence, size], from
 * {@code softmax(mask(scale·q·kᵀ))·v}: see {@link AttentionScores} for the products and {@link AttentionMask} for the mask. Shapes must be
 * numbers: they decide whether heads match and what a mask hides.
 *
 * <p>Heads of k and v that an exporter repeats (Unsqueeze, Expand, Reshape) are read unrepeated. A {@code Dropout} behind the softmax
 * passes its input through, as every Dropout does in training here; {@code Where(IsNaN(p), 0, p)} there is part of the operator.
 *
 * <p>Results are those of the single operators up to rounding. The only difference is a row whose scores an added mask brings to
 * minus infinity everywhere: it becomes zero instead of NaN. The lowest finite number hides as before, but is infinite in BF16.
 */
final class FuseAttention implements FusionRule {
    static final String NAME = "Attention";
    /** The first with the operator. */
    static final long OPSET = 23;
    /** That came with it (onnx/helper.py, VERSION_TABLE). */
    static final long IR = 11;

    /** Nodes between softmax and product. */
    private static final int MAX_STEPS = 4;

    /** Summands of scores: T5 adds a bias of positions, and then a mask. */
    private static final int MAX_SUMMANDS = 2;

    /**
     * A softmax with the scores it is of.
     *
     * @param masking nodes that hide scores or add to them, the innermost first: one Where, or Adds
     * @param values what each of these hides or adds to
     */
    private record Masked(AttentionScores scores, List<Node> masking, List<String> values) {
        List<Node> nodes() {
            List<Node> nodes = new ArrayList<>(scores.nodes());
            nodes.addAll(masking);
            return nodes;
        }

        Masked behind(Node node, String value) {
            List<Node> nodes = new ArrayList<>(masking);
            nodes.add(node);
            List<String> all = new ArrayList<>(values);
            all.add(value);
            return new Masked(scores, nodes, all);
        }
    }

    /**
     * What masks attention.
     *
     * @param before nodes that compute it
     */
    private record Masking(AttentionMask mask, List<Node> before) {}

    /** k and v. */
    private record Keys(String k, String v) {}

    @Override
    public String name() {
        return NAME;
    }

    @Override
    public Outcome apply(GraphFacts g, Node anchor) {
        if (!anchor.is("Softmax")) {
            return Outcome.NO_MATCH;
        }
        List<Node> behind = behind(g, anchor.output(), MAX_STEPS);
        Masked masked = masked(g, g.uncast(anchor.input(0)), MAX_SUMMANDS);
        if (behind.isEmpty() || masked == null) {
            return Outcome.NO_MATCH; // a softmax of anything else
        }
        if (!g.isLastAxis(anchor.input(0), anchor.intAttribute("axis", -1))) {
            return Outcome.refused(anchor, "the softmax is not over the last axis");
        }
        List<Node> nodes = masked.nodes();
        nodes.add(anchor);
        nodes.addAll(behind);
        List<Node> matched = g.closed(nodes);
        String leak = g.leak(matched);
        return leak != null ? Outcome.refused(anchor, leak) : fused(g, anchor, masked, matched);
    }

    /** The nodes from the softmax to the product with v, that product last; empty when the pattern does not match. */
    private static List<Node> behind(GraphFacts g, String value, int steps) {
        for (Node n : g.consumers(value)) {
            boolean reads = n.input(0).equals(value);
            if (n.is("MatMul") && reads) {
                return List.of(n);
            }
            Node guard = guard(g, n, value);
            if (guard != null && steps > 1) {
                List<Node> rest = behind(g, n.output(), steps - 1);
                if (!rest.isEmpty()) {
                    List<Node> all = new ArrayList<>(List.of(guard, n));
                    all.addAll(rest);
                    return all;
                }
            }
            boolean passes = n.is("Dropout") || n.is("Identity") || n.is("Cast");
            List<Node> rest = passes && reads && steps > 1 ? behind(g, n.output(), steps - 1) : List.of();
            if (!rest.isEmpty()) {
                List<Node> all = new ArrayList<>(List.of(n));
                all.addAll(rest);
                return all;
            }
        }
        return List.of();
    }

    /**
     * The IsNaN of {@code where(isnan(p), 0, p)}, with which torch zeroes rows that the mask hides entirely; the operator does the same.
     */
    private static @Nullable Node guard(GraphFacts g, Node n, String value) {
        if (!n.is("Where") || !n.input(2).equals(value) || g.scalar(n.input(1)).orElse(1) != 0) {
            return null;
        }
        Node test = g.producer(n.input(0), "IsNaN");
        return test != null && test.input(0).equals(value) ? test : null;
    }

    private static @Nullable Masked masked(GraphFacts g, String value, int summands) {
        AttentionScores scores = AttentionScores.of(g, value);
        Node masking = scores == null ? g.producer(value, "Add", "Where") : null;
        if (masking == null) {
            return scores == null ? null : new Masked(scores, List.of(), List.of());
        }
        int first = masking.is("Add") ? 0 : 1;
        for (int i = first; i <= first + 1; i++) {
            String inner = masking.input(i);
            AttentionScores bare = AttentionScores.of(g, inner);
            if (bare != null) {
                return new Masked(bare, List.of(masking), List.of(inner));
            }
            Masked sum = first == 0 && summands > 1 && g.producer(inner, "Add") != null
                    ? masked(g, g.uncast(inner), summands - 1)
                    : null;
            if (sum != null) {
                return sum.behind(masking, inner);
            }
        }
        return null;
    }

    private static Outcome fused(GraphFacts g, Node anchor, Masked masked, List<Node> matched) {
        AttentionScores scores = masked.scores();
        Node product = matched.getLast();
        Shape shape = g.shape(
                masked.values().isEmpty()
                        ? g.uncast(anchor.input(0))
                        : masked.values().getFirst());
        Shape q = g.shape(scores.q());
        Shape k = g.shape(scores.keys());
        Shape v = g.shape(g.uncast(product.input(1)));
        if (shape == null || q == null || k == null || v == null) {
            return Outcome.refused(anchor, "shapes of q, k and v are not known");
        }
        if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4) {
            return Outcome.refused(anchor, "q, k and v have not the axes [batch, heads, sequence, size]");
        }
        Shape permuted = permuted(k, scores.toKeys());
        boolean fits = permuted.equals(Shape.of(q.dim(0), q.dim(1), shape.dim(-1), q.dim(3)))
                && v.equals(Shape.of(q.dim(0), q.dim(1), shape.dim(-1), v.dim(3)));
        if (!fits) {
            return Outcome.refused(anchor, "q " + q + ", k " + permuted + " and v " + v + " do not go together");
        }
        String problem = typeProblem(g, scores, product);
        double scale = scores.scale();
        if (problem == null && (scale == 0 || !Double.isFinite(scale))) {
            problem = "the scale is " + scale;
        }
        Masking masking = masking(g, masked, shape, product);
        if (masking.mask() instanceof AttentionMask.Refused(String reason)) {
            problem = reason;
        }
        return problem != null ? Outcome.refused(anchor, problem) : canonical(g, anchor, scores, masking, matched);
    }

    private static Shape permuted(Shape shape, List<Long> perm) {
        return Shape.of(
                perm.stream().mapToLong(p -> shape.dim(Math.toIntExact(p))).toArray());
    }

    /** Why one operator could not take and give these types. */
    private static @Nullable String typeProblem(GraphFacts g, AttentionScores scores, Node product) {
        DType q = g.dtype(scores.q());
        DType k = g.dtype(scores.keys());
        DType v = g.dtype(g.uncast(product.input(1)));
        DType y = g.dtype(product.output());
        boolean same = q != null && GraphFacts.isWeightType(q) && q == k && q == v && q == y;
        return same ? null : "q, k, v and the result are not known to be of one type";
    }

    private static Masking masking(GraphFacts g, Masked masked, Shape scores, Node product) {
        List<AttentionMask> masks = new ArrayList<>();
        List<String> summands = new ArrayList<>();
        for (int i = 0; i < masked.masking().size(); i++) {
            Node n = masked.masking().get(i);
            boolean first = n.input(n.is("Add") ? 0 : 1).equals(masked.values().get(i));
            String other = n.input(first ? 1 : 0);
            AttentionMask mask =
                    n.is("Add") ? AttentionMask.added(g, other, scores) : AttentionMask.chosen(g, n, !first, scores);
            if (mask instanceof AttentionMask.Refused) {
                return new Masking(mask, List.of());
            }
            if (!(mask instanceof AttentionMask.None)) {
                masks.add(mask);
                summands.add(other);
            }
        }
        if (masks.size() < MAX_SUMMANDS) {
            return new Masking(masks.isEmpty() ? new AttentionMask.None() : masks.getFirst(), List.of());
        }
        String sum = g.freshName(product.output() + "_mask");
        return new Masking(
                new AttentionMask.Added(sum), List.of(Node.of(sum, "Add", List.copyOf(summands), List.of(sum))));
    }

    private static Outcome canonical(
            GraphFacts g, Node anchor, AttentionScores scores, Masking masking, List<Node> matched) {
        Node product = matched.getLast();
        AttentionMask mask = masking.mask();
        List<Node> before = new ArrayList<>(masking.before());
        Keys keys = new Keys(scores.keys(), g.uncast(product.input(1)));
        if (scores.isTransposed()) {
            String k = g.freshName(product.output() + "_k");
            before.add(scores.transpose(k, k));
            keys = new Keys(k, keys.v());
        } else {
            keys = unrepeated(g, keys);
        }
        List<String> inputs = new ArrayList<>(List.of(scores.q(), keys.k(), keys.v()));
        String maskInput = mask.input();
        if (maskInput != null) {
            inputs.add(maskInput);
        }
        Node attention = Node.of(
                        ModulePath.nameFor(anchor),
                        NAME,
                        inputs,
                        List.of(product.output()),
                        Attribute.of("scale", (float) scores.scale()),
                        Attribute.of("is_causal", mask instanceof AttentionMask.Causal ? 1L : 0L))
                .withMetadata(ModulePath.metadataFor(anchor));
        return new Outcome.Fused(matched, attention, before, mask.constants());
    }

    /** k and v before each of their heads was written several times for as many heads of q, where both were. */
    private static Keys unrepeated(GraphFacts g, Keys keys) {
        String k = unrepeated(g, keys.k());
        String v = unrepeated(g, keys.v());
        Shape kShape = k == null ? null : g.shape(k);
        Shape vShape = v == null ? null : g.shape(v);
        return k != null && v != null && kShape != null && vShape != null && kShape.dim(1) == vShape.dim(1)
                ? new Keys(k, v)
                : keys;
    }

    /** [b, h, t, d] as [b, h, 1, t, d], that as [b, h, n, t, d], that as [b, h·n, t, d]: the shapes decide. */
    private static @Nullable String unrepeated(GraphFacts g, String value) {
        Node join = g.producer(value, "Reshape");
        Node repeat = join == null ? null : g.producer(join.input(0), "Expand");
        Node split = repeat == null ? null : g.producer(repeat.input(0), "Unsqueeze", "Reshape");
        if (join == null || repeat == null || split == null) {
            return null;
        }
        Shape x = g.shape(split.input(0));
        Shape repeated = g.shape(repeat.output());
        if (x == null || x.rank() != 4 || repeated == null || repeated.rank() != 5) {
            return null;
        }
        long n = repeated.dim(2);
        boolean is = repeated.equals(Shape.of(x.dim(0), x.dim(1), n, x.dim(2), x.dim(3)))
                && Objects.equals(g.shape(split.output()), Shape.of(x.dim(0), x.dim(1), 1, x.dim(2), x.dim(3)))
                && Objects.equals(g.shape(value), Shape.of(x.dim(0), x.dim(1) * n, x.dim(2), x.dim(3)));
        return is ? split.input(0) : null;
    }
}
