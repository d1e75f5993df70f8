package dev.octet.converter.rule;

import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import java.util.List;

/** The outcome of a rule for one node. A refusal is a value, not an error: it appears in the report. */
public sealed interface Outcome {
    /** The node has nothing to do with the rule. */
    record NoMatch() implements Outcome {}

    /**
     * The pattern matches and may be replaced.
     *
     * @param matched nodes to take away; the last computes the value that {@code fused} computes instead
     * @param fused the canonical node, at the place of the last matched one
     * @param before new nodes that {@code fused} reads, in order; they come just before it
     * @param constants new constants that {@code fused} reads
     */
    record Fused(List<Node> matched, Node fused, List<Node> before, List<Initializer> constants) implements Outcome {
        public Fused {
            matched = List.copyOf(matched);
            before = List.copyOf(before);
            constants = List.copyOf(constants);
        }

        /** One node for many. */
        Fused(List<Node> matched, Node fused, List<Initializer> constants) {
            this(matched, fused, List.of(), constants);
        }
    }

    /**
     * The pattern nearly matches, and is left as it is.
     *
     * @param node {@link Node#id()} of the node that the rule looked at
     * @param reason one line
     */
    record Refused(String node, String reason) implements Outcome {}

    NoMatch NO_MATCH = new NoMatch();

    static Refused refused(Node node, String reason) {
        return new Refused(node.id(), reason);
    }
}
