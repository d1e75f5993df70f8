package dev.octet.converter.rule;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalDouble;
import org.jspecify.annotations.Nullable;

/**
 * The part that LayerNorm and RMSNorm have in common when exporters spell them out: {@code v · 1/sqrt(mean(v²) + epsilon)}.
 *
 * @param square {@code Pow(v, 2)} or {@code Mul(v, v)}
 * @param mean {@code ReduceMean} over the innermost axis
 * @param add of epsilon
 * @param root {@code Sqrt}, {@code Pow(., 0.5)} or {@code Pow(., -0.5)}: the node that rules hang on
 * @param inverted whether {@code root} gives 1/sqrt already
 * @param squared v, as {@code square} reads it
 * @param epsilon the value added to the mean
 */
record NormPattern(Node square, Node mean, Node add, Node root, boolean inverted, String squared, String epsilon) {
    /** More than any norm has; keeps away what merely looks like one. */
    private static final double MAX_EPSILON = 1e-2;

    /**
     * The product with 1/sqrt.
     *
     * @param nodes from behind the root to the product
     * @param operand the factor
     * @param output the normalised value
     */
    record Scaled(List<Node> nodes, String operand, String output) {}

    /** The pattern whose root is {@code anchor}; null when it does not match. */
    static @Nullable NormPattern around(GraphFacts g, Node anchor) {
        boolean inverted = anchor.is("Pow") && g.isScalar(anchor.input(1), -0.5);
        boolean root = anchor.is("Sqrt") || inverted || (anchor.is("Pow") && g.isScalar(anchor.input(1), 0.5));
        Node add = root ? g.producer(anchor.input(0), "Add") : null;
        if (add == null) {
            return null;
        }
        for (int side = 0; side < 2; side++) {
            Node mean = g.producer(g.uncast(add.input(side)), "ReduceMean");
            Node square = mean == null ? null : g.producer(g.uncast(mean.input(0)), "Pow", "Mul");
            if (mean != null && square != null && isSquare(g, square)) {
                return new NormPattern(
                        square, mean, add, anchor, inverted, g.bare(square.input(0)), add.input(1 - side));
            }
        }
        return null;
    }

    private static boolean isSquare(GraphFacts g, Node n) {
        return n.is("Pow") ? g.isScalar(n.input(1), 2) : g.same(n.input(0), n.input(1));
    }

    /** The nodes from the square to the root. */
    List<Node> nodes() {
        return List.of(square, mean, add, root);
    }

    /** Why the mean is not the one a norm takes; null when it is. */
    @Nullable
    String problem(GraphFacts g) {
        OptionalDouble e = g.scalar(epsilon);
        if (e.isEmpty()) {
            return "epsilon '" + epsilon + "' is not a constant number";
        }
        if (!(e.getAsDouble() >= 0 && e.getAsDouble() <= MAX_EPSILON)) {
            return "epsilon " + e.getAsDouble() + " is not between 0 and " + MAX_EPSILON;
        }
        return meanProblem(g, mean);
    }

    /** Why a ReduceMean is not over the innermost axis alone with that axis kept; null when it is. */
    static @Nullable String meanProblem(GraphFacts g, Node mean) {
        if (!g.reducesLastAxis(mean)) {
            return "axes of '" + mean.id() + "' are not known to be the last dimension alone";
        }
        return mean.intAttribute("keepdims", 1) == 1 ? null : "'" + mean.id() + "' drops the axis (keepdims = 0)";
    }

    /** Epsilon as the canonical operators hold it. Only valid where {@link #problem} found nothing wrong. */
    float epsilonValue(GraphFacts g) {
        return (float) g.scalar(epsilon).orElseThrow();
    }

    /** 1/sqrt as a value of its own, with the nodes that make it; null when the root is divided by directly. */
    @Nullable
    Scaled inverse(GraphFacts g) {
        if (inverted) {
            return new Scaled(List.of(), "", root.output());
        }
        GraphFacts.Reader r = g.reader(root.output(), "Reciprocal", "Div");
        if (r == null) {
            return null;
        }
        boolean isInverse = r.node().is("Reciprocal")
                || (r.node().input(1).equals(r.value()) && g.isScalar(r.node().input(0), 1));
        return isInverse ? new Scaled(List.of(r.node()), "", r.node().output()) : null;
    }

    /** The product of some value and 1/sqrt: {@code Div(v, sqrt)} or {@code Mul(v, 1/sqrt)}; null when neither matches. */
    @Nullable
    Scaled scaled(GraphFacts g) {
        Scaled inverse = inverse(g);
        if (inverse != null) {
            GraphFacts.Reader mul = g.reader(inverse.output(), "Mul");
            String operand = mul == null ? null : mul.other();
            if (mul == null || operand == null) {
                return null;
            }
            List<Node> nodes = new ArrayList<>(inverse.nodes());
            nodes.add(mul.node());
            return new Scaled(nodes, operand, mul.node().output());
        }
        GraphFacts.Reader div = g.reader(root.output(), "Div");
        return div != null && div.node().input(1).equals(div.value())
                ? new Scaled(
                        List.of(div.node()), div.node().input(0), div.node().output())
                : null;
    }

    /**
     * What a normalised value is multiplied by: a constant vector, or 1 + a constant vector (Gemma).
     *
     * @param value its name
     * @param size its number of elements
     */
    private record Factor(String value, long size, DType dtype) {
        /** Null when {@code value} is neither. */
        static @Nullable Factor of(GraphFacts g, String value) {
            GraphFacts.Constant w = g.vector(value);
            if (w != null) {
                return new Factor(
                        w.name(), w.tensor().shape().elementCount(), w.tensor().dtype());
            }
            Node add = g.producer(value, "Add");
            for (int side = 0; add != null && side < 2; side++) {
                GraphFacts.Constant offset = g.vector(g.uncast(add.input(side)));
                if (offset != null && g.isScalar(add.input(1 - side), 1)) {
                    DType dtype = g.dtype(add.input(side));
                    return new Factor(
                            g.bare(value),
                            offset.tensor().shape().elementCount(),
                            dtype == null ? offset.tensor().dtype() : dtype);
                }
            }
            return null;
        }
    }

    /**
     * {@code Mul} with a norm's factor.
     *
     * @param weight name of the factor
     * @param size its number of elements
     */
    record Weighted(Node node, String weight, long size, DType dtype) {}

    /**
     * The multiplication of {@code value} by the norm's weight; null when there is no such multiplication. A single element would be a
     * plain factor.
     */
    static @Nullable Weighted weighted(GraphFacts g, String value) {
        GraphFacts.Reader mul = g.reader(value, "Mul");
        String other = mul == null ? null : mul.other();
        Factor w = other == null ? null : Factor.of(g, other);
        return mul == null || w == null || w.size() == 1
                ? null
                : new Weighted(mul.node(), w.value(), w.size(), w.dtype());
    }

    /**
     * The input of the canonical operator: {@code x} as the pattern reads it, or its value before the change of type where the
     * norm computes in F32 for a narrower model. The canonical operator's input has the type of its weight.
     *
     * @param changesType whether the pattern changes the type of values on its way
     * @return null when the graph does not show a value of the right type
     */
    static @Nullable String input(GraphFacts g, String x, DType weight, boolean changesType) {
        DType seen = g.dtype(x);
        if (seen == weight || (seen == null && !changesType && g.uncast(x).equals(g.bare(x)))) {
            return x;
        }
        return g.dtype(g.uncast(x)) == weight ? g.uncast(x) : null;
    }

    /** A norm that the model holds as one operator already. */
    static Outcome ofOperator(GraphFacts g, Node node, String canonical, boolean mayHaveBias) {
        Factor w = Factor.of(g, node.input(1));
        if (w == null) {
            return Outcome.refused(node, "weight '" + node.input(1) + "' is not a 1-D constant");
        }
        if (!g.isLastAxis(node.input(0), node.intAttribute("axis", -1))) {
            return Outcome.refused(
                    node, "axis " + node.intAttribute("axis", -1) + " is not known to be the last dimension");
        }
        if (node.intAttribute("stash_type", 1) != DType.F32.onnxId()) {
            return Outcome.refused(node, "it computes in another type than F32 (stash_type)");
        }
        if (node.outputs().stream().skip(1).anyMatch(o -> !o.isEmpty())) {
            return Outcome.refused(node, "its mean or deviation is an output of its own");
        }
        List<String> inputs = new ArrayList<>(List.of(node.input(0), w.value()));
        if (mayHaveBias && node.hasInput(2)) {
            GraphFacts.Constant b = g.vector(node.input(2));
            if (b == null || b.tensor().shape().elementCount() != w.size()) {
                return Outcome.refused(node, "bias '" + node.input(2) + "' is not a constant of the weight's shape");
            }
            inputs.add(b.name());
        }
        Node fused = canonical(canonical, node, inputs, node.output(), node.floatAttribute("epsilon", 1e-5f));
        return new Outcome.Fused(List.of(node), fused, List.of());
    }

    /** The canonical node in place of the pattern around {@code anchor}. */
    static Node canonical(String op, Node anchor, List<String> inputs, String output, float epsilon) {
        return Node.of(
                        ModulePath.nameFor(anchor),
                        op,
                        Node.OCTET_DOMAIN,
                        inputs,
                        List.of(output),
                        Attribute.of("axis", -1),
                        Attribute.of("epsilon", epsilon))
                .withMetadata(ModulePath.metadataFor(anchor));
    }

    /** The outcome of a whole pattern: fused unless a value inside is needed elsewhere. */
    static Outcome fused(GraphFacts g, List<Node> nodes, Node anchor, Node canonical) {
        List<Node> matched = g.closed(nodes);
        String leak = g.leak(matched);
        return leak == null ? new Outcome.Fused(matched, canonical, List.of()) : Outcome.refused(anchor, leak);
    }
}
