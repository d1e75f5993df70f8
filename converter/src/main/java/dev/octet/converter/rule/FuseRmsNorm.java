package dev.octet.converter.rule;

import dev.octet.formats.graph.Node;
import java.util.ArrayList;
import java.util.List;

/**
 * {@code RMSNormalization(x, weight)} from
 *
 * <ol>
 *   <li>the operator itself (ONNX opset 23; {@code SimplifiedLayerNormalization} of ONNX Runtime);
 *   <li>{@code w · (x · 1/sqrt(mean(x²) + epsilon))}, the root taken by {@code Sqrt} or {@code Pow}, inverted by {@code Reciprocal},
 *       {@code Div(1, .)}, or dividing x directly; with {@code Cast} to F32 around the norm in narrower models.
 * </ol>
 */
final class FuseRmsNorm implements FusionRule {
    @Override
    public String name() {
        return CanonicalOps.RMS_NORM;
    }

    @Override
    public Outcome apply(GraphFacts g, Node anchor) {
        // case 1
        if (anchor.is("RMSNormalization") || anchor.is("SimplifiedLayerNormalization")) {
            return NormPattern.ofOperator(g, anchor, CanonicalOps.RMS_NORM, false);
        }
        // case 2
        NormPattern norm = NormPattern.around(g, anchor);
        if (norm == null || FuseLayerNorm.Centred.of(g, norm.squared()) != null) {
            return Outcome.NO_MATCH;
        }
        String problem = norm.problem(g);
        if (problem != null) {
            return Outcome.refused(anchor, problem);
        }
        NormPattern.Scaled scaled = norm.scaled(g);
        if (scaled == null || !g.same(scaled.operand(), norm.squared())) {
            return Outcome.refused(anchor, "the normalised value is not the one whose squares are averaged");
        }
        NormPattern.Weighted weighted = NormPattern.weighted(g, scaled.output());
        if (weighted == null) {
            return Outcome.refused(anchor, "no 1-D constant weight follows the normalisation");
        }
        String x = NormPattern.input(
                g,
                norm.squared(),
                weighted.dtype(),
                weighted.node().inputs().stream().noneMatch(scaled.output()::equals));
        if (x == null) {
            return Outcome.refused(anchor, "input and weight are not known to be of one type");
        }
        List<Node> nodes = new ArrayList<>(norm.nodes());
        nodes.addAll(scaled.nodes());
        nodes.add(weighted.node());
        Node canonical = NormPattern.canonical(
                CanonicalOps.RMS_NORM,
                anchor,
                List.of(x, weighted.weight()),
                weighted.node().output(),
                norm.epsilonValue(g));
        return NormPattern.fused(g, nodes, anchor, canonical);
    }
}
