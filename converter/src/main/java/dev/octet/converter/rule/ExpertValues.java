package dev.octet.converter.rule;

import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Node;
import java.util.HashSet;
import java.util.Set;

/** The values inside experts, whose rows are those of the tokens that a router chose: two models that choose differently have different rows there. */
public final class ExpertValues {
    private ExpertValues() {}

    /** Names of all values from where tokens reach their experts to where what experts made of them is added up. */
    public static Set<String> of(Graph graph) {
        Set<String> inside = new HashSet<>();
        for (Node n : graph.nodes()) {
            boolean enters = n.isOctet(CanonicalOps.EXPERT_ROWS);
            boolean stays =
                    !n.isOctet(CanonicalOps.EXPERT_SUM) && n.inputs().stream().anyMatch(inside::contains);
            if (enters || stays) {
                inside.addAll(n.outputs());
            }
        }
        return inside;
    }
}
