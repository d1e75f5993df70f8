package dev.octet.converter.rule;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * {@code Gelu(x)} from
 *
 * <ol>
 *   <li>the operator itself (ONNX opset 20; {@code Gelu} and {@code FastGelu} of ONNX Runtime);
 *   <li>½·x·(1 + erf(x/√2));
 *   <li>½·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))).
 * </ol>
 *
 * <p>In cases 2 and 3 the factors may come in any order and grouping: what counts is the polynomial of x before the function, and the
 * polynomial of x and the function's value t after it. Source: Hendrycks and Gimpel 2016 (arXiv:1606.08415).
 */
final class FuseGelu implements FusionRule {
    private static final Polynomial ERF_ARGUMENT = Polynomial.term(Math.sqrt(0.5), 1, 0);
    private static final Polynomial TANH_ARGUMENT = Polynomial.term(Math.sqrt(2 / Math.PI), 1, 0)
            .plus(Polynomial.term(Math.sqrt(2 / Math.PI) * 0.044715, 3, 0), 1);
    private static final Polynomial RESULT = Polynomial.term(0.5, 1, 0).plus(Polynomial.term(0.5, 1, 1), 1);
    /** A coefficient is the product of two rounded constants at most. */
    private static final double TOLERANCE = 2 * GraphFacts.TOLERANCE;
    /** Nodes behind the function: + 1, times x, times ½, and one to spare. */
    private static final int MAX_STEPS = 4;

    @Override
    public String name() {
        return CanonicalOps.GELU;
    }

    @Override
    public Outcome apply(GraphFacts g, Node anchor) {
        if (anchor.is("Erf")) {
            return ofFunction(g, anchor, ERF_ARGUMENT, "none"); // case 2
        }
        if (anchor.is("Tanh")) {
            return ofFunction(g, anchor, TANH_ARGUMENT, "tanh"); // case 3
        }
        // case 1
        if (anchor.is("Gelu")) {
            return replaced(anchor, anchor.textAttribute("approximate", "none"));
        }
        boolean oneInput = anchor.domain().equals("com.microsoft") && !anchor.hasInput(1);
        return oneInput && anchor.opType().equals("Gelu")
                ? replaced(anchor, "none")
                : oneInput && anchor.opType().equals("FastGelu") ? replaced(anchor, "tanh") : Outcome.NO_MATCH;
    }

    private static Outcome replaced(Node operator, String approximate) {
        return new Outcome.Fused(
                List.of(operator), canonical(operator, operator.input(0), operator.output(), approximate), List.of());
    }

    private static Outcome ofFunction(GraphFacts g, Node anchor, Polynomial wanted, String approximate) {
        Argument argument = argument(g, anchor, wanted);
        if (argument == null) {
            // A tanh often has other uses than GELU; an erf hardly ever.
            return approximate.equals("none")
                    ? Outcome.refused(anchor, "the argument of Erf is not x/sqrt(2)")
                    : Outcome.NO_MATCH;
        }
        Polynomial.Computed result = result(g, anchor, argument.x());
        if (result == null) {
            return Outcome.refused(
                    anchor,
                    "the product x/2 * (1 + " + anchor.output() + ") does not follow, or its parts are read elsewhere");
        }
        Set<Node> nodes = new LinkedHashSet<>(argument.nodes());
        nodes.add(anchor);
        nodes.addAll(result.nodes());
        List<Node> matched = List.copyOf(nodes);
        String leak = g.leak(matched);
        return leak != null
                ? Outcome.refused(anchor, leak)
                : new Outcome.Fused(
                        matched,
                        canonical(anchor, argument.x(), matched.getLast().output(), approximate),
                        List.of());
    }

    private record Argument(String x, Set<Node> nodes) {}

    /** The x of which the function's argument is the wanted polynomial. */
    private static @Nullable Argument argument(GraphFacts g, Node function, Polynomial wanted) {
        for (String x : Polynomial.sources(g, function.input(0))) {
            Polynomial.Computed p = Polynomial.of(g, function.input(0), x, null);
            if (p != null && p.polynomial().isNear(wanted, TOLERANCE)) {
                return new Argument(x, p.nodes());
            }
        }
        return null;
    }

    /** The value behind the function that is the wanted polynomial of x and the function's value. */
    private static Polynomial.@Nullable Computed result(GraphFacts g, Node function, String x) {
        String value = function.output();
        for (int step = 0; step < MAX_STEPS; step++) {
            GraphFacts.Reader r = g.reader(value, "Add", "Mul", "Div");
            if (r == null) {
                return null;
            }
            value = r.node().output();
            Polynomial.Computed p = Polynomial.of(g, value, x, function.output());
            if (p != null && p.polynomial().isNear(RESULT, TOLERANCE)) {
                return p;
            }
        }
        return null;
    }

    private static Node canonical(Node anchor, String x, String y, String approximate) {
        return Node.of(
                        ModulePath.nameFor(anchor),
                        CanonicalOps.GELU,
                        Node.OCTET_DOMAIN,
                        List.of(x),
                        List.of(y),
                        Attribute.of("approximate", approximate))
                .withMetadata(ModulePath.metadataFor(anchor));
    }
}
