package dev.octet.converter.rule;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import java.util.List;
import java.util.OptionalDouble;

/**
 * {@code ExpertRows(x, chosen)} from Octet's own spelling: {@code p = Reshape(NonZero(Equal(chosen, expert)), [-1])}, {@code Gather(x, Div(p, choices))}.
 */
final class FuseExpertRows implements FusionRule {
    @Override
    public String name() {
        return CanonicalOps.EXPERT_ROWS;
    }

    @Override
    public Outcome apply(GraphFacts g, Node anchor) {
        Node token =
                anchor.is("Gather") && anchor.intAttribute("axis", 0) == 0 ? g.producer(anchor.input(1), "Div") : null;
        Node places = token == null ? null : g.producer(token.input(0), "Reshape");
        Node nonZero = places == null ? null : g.producer(places.input(0), "NonZero");
        Node equal = nonZero == null ? null : g.producer(nonZero.input(0), "Equal");
        if (token == null || places == null || equal == null) {
            return Outcome.NO_MATCH;
        }
        OptionalDouble choices = g.scalar(token.input(1));
        OptionalDouble expert = g.scalar(equal.input(1));
        if (choices.isEmpty()
                || expert.isEmpty()
                || g.dtype(equal.input(1)) != DType.I64
                || choices.getAsDouble() < 1) {
            return Outcome.NO_MATCH;
        }
        Node rows = Node.of(
                        ModulePath.nameFor(anchor),
                        CanonicalOps.EXPERT_ROWS,
                        Node.OCTET_DOMAIN,
                        List.of(anchor.input(0), equal.input(0)),
                        List.of(anchor.output(), places.output()),
                        Attribute.of("expert", (long) expert.getAsDouble()),
                        Attribute.of("choices", (long) choices.getAsDouble()))
                .withMetadata(ModulePath.metadataFor(anchor));
        return new Outcome.Fused(List.of(places, anchor), rows, List.of());
    }
}
