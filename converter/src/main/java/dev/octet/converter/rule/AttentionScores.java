package dev.octet.converter.rule;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalDouble;
import org.jspecify.annotations.Nullable;

/**
 * {@code scale·q·kᵀ}, the scale behind the product, or a part of it on each factor.
 *
 * @param keys what becomes k by {@link #toKeys}
 * @param toKeys permutation of the axes of {@code keys} that makes k
 * @param nodes all that compute the scores from q and {@code keys}, the transposition of k left out
 */
record AttentionScores(String q, String keys, List<Long> toKeys, double scale, List<Node> nodes) {
    private static final List<Long> SWAPPED = List.of(0L, 1L, 3L, 2L);
    private static final List<Long> UNCHANGED = List.of(0L, 1L, 2L, 3L);

    /** A value without the constant it is multiplied with. */
    private record Scaled(String value, double factor, List<Node> nodes) {}

    /** The scores that {@code value} is; null when it is nothing of the kind. */
    static @Nullable AttentionScores of(GraphFacts g, String value) {
        Scaled scores = unscaled(g, value);
        Node product = g.producer(g.uncast(scores.value()), "MatMul");
        if (product == null) {
            return null;
        }
        Scaled q = unscaled(g, product.input(0));
        Scaled k = unscaled(g, product.input(1));
        Node transpose = g.producer(g.uncast(k.value()), "Transpose");
        List<Long> perm =
                transpose == null ? UNCHANGED : transpose.intsAttribute("perm").orElse(List.of());
        if (perm.size() != SWAPPED.size()) {
            return null;
        }
        List<Node> nodes = new ArrayList<>(scores.nodes());
        nodes.add(product);
        nodes.addAll(q.nodes());
        nodes.addAll(k.nodes());
        double scale = scores.factor() * q.factor() * k.factor();
        String keys = g.uncast(transpose == null ? k.value() : transpose.input(0));
        List<Long> toKeys = List.of(perm.get(0), perm.get(1), perm.get(3), perm.get(2));
        if (toKeys.equals(UNCHANGED)) {
            // k times its part of the scale, and only then transposed
            Scaled before = unscaled(g, keys);
            nodes.addAll(before.nodes());
            if (!before.nodes().isEmpty() && transpose != null) {
                nodes.add(transpose);
            }
            scale *= before.factor();
            keys = g.uncast(before.value());
        }
        return new AttentionScores(g.uncast(q.value()), keys, toKeys, scale, nodes);
    }

    private static Scaled unscaled(GraphFacts g, String value) {
        String v = g.uncast(value);
        Node n = g.producer(v, "Mul", "Div");
        if (n == null) {
            return new Scaled(v, 1, List.of());
        }
        OptionalDouble right = g.scalar(n.input(1));
        if (right.isPresent()) {
            double factor = n.is("Mul") ? right.getAsDouble() : 1 / right.getAsDouble();
            return new Scaled(n.input(0), factor, List.of(n));
        }
        OptionalDouble left = n.is("Mul") ? g.scalar(n.input(0)) : OptionalDouble.empty();
        return left.isPresent() ? new Scaled(n.input(1), left.getAsDouble(), List.of(n)) : new Scaled(v, 1, List.of());
    }

    /** Whether k has to be made out of {@link #keys}, by {@link #transpose}. */
    boolean isTransposed() {
        return !toKeys.equals(UNCHANGED);
    }

    /** The node that makes k. */
    Node transpose(String name, String k) {
        return Node.of(name, "Transpose", List.of(keys), List.of(k), Attribute.of("perm", toKeys));
    }
}
