package dev.octet.converter.rule;

import dev.octet.formats.graph.Node;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.OptionalDouble;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Σ c[i][j]·xⁱ·tʲ, i ≤ 3, j ≤ 1: what a piece of a graph computes from two of its values. A rule compares polynomials instead
 * of the many orders in which exporters write a product.
 */
final class Polynomial {
    private static final int X_DEGREE = 3;
    private static final int T_DEGREE = 1;
    /** Nodes between a value and x that are looked through: the longest GELU in use has 5. */
    private static final int MAX_DEPTH = 7;

    private final double[][] c;

    private Polynomial(double[][] c) {
        this.c = c;
    }

    /** {@code coefficient}·xⁱ·tʲ. */
    static Polynomial term(double coefficient, int i, int j) {
        double[][] c = new double[X_DEGREE + 1][T_DEGREE + 1];
        c[i][j] = coefficient;
        return new Polynomial(c);
    }

    Polynomial plus(Polynomial o, double factor) {
        double[][] sum = new double[X_DEGREE + 1][T_DEGREE + 1];
        for (int i = 0; i <= X_DEGREE; i++) {
            for (int j = 0; j <= T_DEGREE; j++) {
                sum[i][j] = c[i][j] + factor * o.c[i][j];
            }
        }
        return new Polynomial(sum);
    }

    /** The product; null when its degree is too high. */
    @Nullable
    Polynomial times(Polynomial o) {
        double[][] product = new double[X_DEGREE + 1][T_DEGREE + 1];
        for (int i = 0; i <= X_DEGREE; i++) {
            for (int j = 0; j <= T_DEGREE; j++) {
                for (int k = 0; k <= X_DEGREE; k++) {
                    for (int l = 0; l <= T_DEGREE; l++) {
                        double term = c[i][j] * o.c[k][l];
                        if (term == 0) {
                            continue;
                        }
                        if (i + k > X_DEGREE || j + l > T_DEGREE) {
                            return null;
                        }
                        product[i + k][j + l] += term;
                    }
                }
            }
        }
        return new Polynomial(product);
    }

    /** Whether every coefficient is within {@code tolerance} (a share) of the other's; 0 is near 0 only. */
    boolean isNear(Polynomial wanted, double tolerance) {
        for (int i = 0; i <= X_DEGREE; i++) {
            for (int j = 0; j <= T_DEGREE; j++) {
                if (!GraphFacts.near(c[i][j], wanted.c[i][j], tolerance)) {
                    return false;
                }
            }
        }
        return true;
    }

    private @Nullable Double constantOnly() {
        return isNear(term(c[0][0], 0, 0), 0) ? c[0][0] : null;
    }

    /**
     * A value as a polynomial of x and t.
     *
     * @param nodes that compute it from them
     */
    record Computed(Polynomial polynomial, Set<Node> nodes) {}

    /** {@code value} as a polynomial of the values {@code x} and {@code t}; null when it is not one. */
    static @Nullable Computed of(GraphFacts g, String value, String x, @Nullable String t) {
        Set<Node> nodes = new LinkedHashSet<>();
        Polynomial p = evaluate(g, value, x, t, nodes, MAX_DEPTH);
        return p == null ? null : new Computed(p, nodes);
    }

    private static @Nullable Polynomial evaluate(
            GraphFacts g, String value, String x, @Nullable String t, Set<Node> nodes, int depth) {
        String v = g.bare(value);
        if (v.equals(x)) {
            return term(1, 1, 0);
        }
        if (v.equals(t)) {
            return term(1, 0, 1);
        }
        OptionalDouble scalar = g.scalar(v);
        if (scalar.isPresent()) {
            return term(scalar.getAsDouble(), 0, 0);
        }
        Node n = depth == 0 ? null : g.producer(v, "Add", "Sub", "Mul", "Div", "Pow");
        if (n == null) {
            return null;
        }
        Polynomial a = evaluate(g, n.input(0), x, t, nodes, depth - 1);
        Polynomial b = a == null ? null : evaluate(g, n.input(1), x, t, nodes, depth - 1);
        if (a == null || b == null) {
            return null;
        }
        nodes.add(n);
        return combine(n, a, b);
    }

    private static @Nullable Polynomial combine(Node n, Polynomial a, Polynomial b) {
        Double constant = b.constantOnly();
        return switch (n.opType()) {
            case "Add" -> a.plus(b, 1);
            case "Sub" -> a.plus(b, -1);
            case "Mul" -> a.times(b);
            case "Div" -> constant == null || constant == 0 ? null : a.times(term(1 / constant, 0, 0));
            case "Pow" -> constant == null ? null : power(a, constant);
            default -> null; // foreign operators: no polynomial
        };
    }

    private static @Nullable Polynomial power(Polynomial a, double exponent) {
        Polynomial p = null;
        if (exponent == 2 || exponent == 3) {
            p = a.times(a);
            if (p != null && exponent == 3) {
                p = p.times(a);
            }
        }
        return p;
    }

    /** The values from which {@code value} is computed by sums and products, nearest first: one of them may be x. */
    static List<String> sources(GraphFacts g, String value) {
        Set<String> found = new LinkedHashSet<>();
        List<String> layer = List.of(g.bare(value));
        for (int depth = 0; depth < MAX_DEPTH && !layer.isEmpty(); depth++) {
            List<String> next = new ArrayList<>();
            for (String v : layer) {
                if (g.scalar(v).isPresent() || !found.add(v)) {
                    continue;
                }
                Node n = g.producer(v, "Add", "Sub", "Mul", "Div", "Pow");
                if (n != null) {
                    n.inputs().forEach(i -> next.add(g.bare(i)));
                }
            }
            layer = next;
        }
        return List.copyOf(found);
    }
}
