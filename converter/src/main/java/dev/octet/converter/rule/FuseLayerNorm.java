package dev.octet.converter.rule;

import dev.octet.formats.graph.Node;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * {@code LayerNormalization(x, weight, bias?)} from
 *
 * <ol>
 *   <li>the operator itself (ONNX opset 17);
 *   <li>{@code d · 1/sqrt(mean(d²) + epsilon) · w (+ b)} with {@code d = x - mean(x)}, computed once or twice, the root inverted in any
 *       of {@link NormPattern}'s ways, with {@code Cast} around parts of it in narrower models;
 *   <li>{@code x·s + (b - mean(x)·s)} with {@code s = w · 1/sqrt(mean(d²) + epsilon)} (TensorFlow's batch normalisation form).
 * </ol>
 */
final class FuseLayerNorm implements FusionRule {
    /** {@code x - mean(x)} over the innermost axis. */
    record Centred(String x, Node sub, Node mean) {
        /** How {@code value} is centred; null when it is not. The axis is not looked at. */
        static @Nullable Centred of(GraphFacts g, String value) {
            Node sub = g.producer(g.uncast(value), "Sub");
            Node mean = sub == null ? null : g.producer(g.uncast(sub.input(1)), "ReduceMean");
            return sub != null && mean != null && g.same(mean.input(0), sub.input(0))
                    ? new Centred(g.bare(sub.input(0)), sub, mean)
                    : null;
        }
    }

    /**
     * The end of the pattern.
     *
     * @param nodes behind the root, the one that computes the result last
     * @param bias null when absent
     * @param changesType whether a {@code Cast} is among what the pattern skipped
     */
    private record Tail(
            List<Node> nodes,
            NormPattern.Weighted weighted,
            @Nullable String bias,
            boolean changesType) {}

    @Override
    public String name() {
        return CanonicalOps.LAYER_NORM;
    }

    @Override
    public Outcome apply(GraphFacts g, Node anchor) {
        // case 1
        if (anchor.is("LayerNormalization")) {
            return NormPattern.ofOperator(g, anchor, CanonicalOps.LAYER_NORM, true);
        }
        NormPattern norm = NormPattern.around(g, anchor);
        Centred centred = norm == null ? null : Centred.of(g, norm.squared());
        if (norm == null || centred == null) {
            return Outcome.NO_MATCH;
        }
        String problem = norm.problem(g);
        String meanProblem = problem == null ? NormPattern.meanProblem(g, centred.mean()) : problem;
        if (meanProblem != null) {
            return Outcome.refused(anchor, meanProblem);
        }
        Tail tail = scaledAndShifted(g, norm, centred);
        if (tail == null) {
            tail = folded(g, norm, centred);
        }
        return tail == null
                ? Outcome.refused(anchor, "no product of the centred input with a 1-D constant weight follows the root")
                : fused(g, anchor, norm, centred, tail);
    }

    // case 2
    private static @Nullable Tail scaledAndShifted(GraphFacts g, NormPattern norm, Centred centred) {
        NormPattern.Scaled scaled = norm.scaled(g);
        Centred again = scaled == null ? null : Centred.of(g, scaled.operand());
        if (scaled == null || again == null || !g.same(again.x(), centred.x())) {
            return null;
        }
        NormPattern.Weighted weighted = NormPattern.weighted(g, scaled.output());
        if (weighted == null) {
            return null;
        }
        List<Node> nodes = new ArrayList<>(List.of(again.mean(), again.sub()));
        nodes.addAll(scaled.nodes());
        nodes.add(weighted.node());
        boolean changesType = !weighted.node().inputs().contains(scaled.output())
                || !g.bare(norm.squared()).equals(g.uncast(norm.squared()))
                || !g.bare(scaled.operand()).equals(g.uncast(scaled.operand()));
        GraphFacts.Reader add = g.reader(weighted.node().output(), "Add");
        String side = add == null ? null : add.other();
        GraphFacts.Constant bias = side == null ? null : g.vector(side);
        if (add == null || bias == null || !fits(bias, weighted)) {
            return new Tail(nodes, weighted, null, changesType);
        }
        nodes.add(add.node());
        return new Tail(nodes, weighted, bias.name(), changesType);
    }

    // case 3
    private static @Nullable Tail folded(GraphFacts g, NormPattern norm, Centred centred) {
        NormPattern.Scaled inverse = norm.inverse(g);
        NormPattern.Weighted weighted = inverse == null ? null : NormPattern.weighted(g, inverse.output());
        if (inverse == null || weighted == null) {
            return null;
        }
        String s = weighted.node().output();
        Node xs = null;
        Node ms = null;
        for (Node n : g.consumers(s)) {
            String operand = n.is("Mul") ? GraphFacts.other(n, s) : null;
            if (operand != null && g.same(operand, centred.x())) {
                xs = n;
            } else if (operand != null && g.same(operand, centred.mean().output())) {
                ms = n;
            }
        }
        GraphFacts.Reader sub = ms == null ? null : g.reader(ms.output(), "Sub");
        GraphFacts.Reader add = sub == null ? null : g.reader(sub.node().output(), "Add");
        GraphFacts.Constant bias = sub == null ? null : g.vector(sub.node().input(0));
        if (xs == null || ms == null || sub == null || add == null || bias == null || !fits(bias, weighted)) {
            return null;
        }
        String other = add.other();
        if (other == null || !g.same(other, xs.output())) {
            return null;
        }
        List<Node> nodes = new ArrayList<>(inverse.nodes());
        nodes.addAll(List.of(weighted.node(), xs, ms, sub.node(), add.node()));
        return new Tail(nodes, weighted, bias.name(), false);
    }

    private static boolean fits(GraphFacts.Constant bias, NormPattern.Weighted weighted) {
        return bias.tensor().shape().elementCount() == weighted.size()
                && bias.tensor().dtype() == weighted.dtype();
    }

    private static Outcome fused(GraphFacts g, Node anchor, NormPattern norm, Centred centred, Tail tail) {
        String x = NormPattern.input(g, centred.x(), tail.weighted().dtype(), tail.changesType());
        if (x == null) {
            return Outcome.refused(anchor, "input and weight are not known to be of one type");
        }
        List<String> inputs = new ArrayList<>(List.of(x, tail.weighted().weight()));
        if (tail.bias() != null) {
            inputs.add(tail.bias());
        }
        List<Node> nodes = new ArrayList<>(List.of(centred.mean(), centred.sub()));
        nodes.addAll(norm.nodes());
        nodes.addAll(tail.nodes());
        Node canonical = NormPattern.canonical(
                CanonicalOps.LAYER_NORM, anchor, inputs, tail.nodes().getLast().output(), norm.epsilonValue(g));
        return NormPattern.fused(g, nodes, anchor, canonical);
    }
}
