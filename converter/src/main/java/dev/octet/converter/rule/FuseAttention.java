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

    /** A softmax with the scores it is of. */
    private record Masked(AttentionScores scores, @Nullable Node masking, String value) {
        List<Node> nodes() {
            List<Node> nodes = new ArrayList<>(scores.nodes());
            if (masking != null) {
                nodes.add(masking);
            }
            return nodes;
        }
    }

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
        Masked masked = masked(g, g.uncast(anchor.input(0)));
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

    private static @Nullable Masked masked(GraphFacts g, String value) {
        Node masking = g.producer(value, "Add", "Where");
        if (masking == null) {
            AttentionScores scores = AttentionScores.of(g, value);
            return scores == null ? null : new Masked(scores, null, value);
        }
        int first = masking.is("Add") ? 0 : 1;
        for (int i = first; i <= first + 1; i++) {
            AttentionScores scores = AttentionScores.of(g, masking.input(i));
            if (scores != null) {
                return new Masked(scores, masking, masking.input(i));
            }
        }
        return null;
    }

    private static Outcome fused(GraphFacts g, Node anchor, Masked masked, List<Node> matched) {
        AttentionScores scores = masked.scores();
        Node product = matched.getLast();
        Shape shape = g.shape(masked.value());
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
        AttentionMask mask = mask(g, masked, shape);
        if (mask instanceof AttentionMask.Refused(String reason)) {
            problem = reason;
        }
        return problem != null ? Outcome.refused(anchor, problem) : canonical(g, anchor, scores, mask, matched);
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

    private static AttentionMask mask(GraphFacts g, Masked masked, Shape scores) {
        Node n = masked.masking();
        if (n == null) {
            return new AttentionMask.None();
        }
        boolean first = n.input(n.is("Add") ? 0 : 1).equals(masked.value());
        return n.is("Add")
                ? AttentionMask.added(g, n.input(first ? 1 : 0), scores)
                : AttentionMask.chosen(g, n, !first, scores);
    }

    private static Outcome canonical(
            GraphFacts g, Node anchor, AttentionScores scores, AttentionMask mask, List<Node> matched) {
        Node product = matched.getLast();
        List<Node> before = new ArrayList<>();
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
