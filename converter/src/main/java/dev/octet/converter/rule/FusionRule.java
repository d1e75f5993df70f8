package dev.octet.converter.rule;

import dev.octet.formats.graph.Node;

/**
 * One pattern and what replaces it. A rule is asked about every node; it answers for those at which its pattern hangs (its
 * <em>anchor</em>: the node that is rare elsewhere, such as {@code Erf}). Rules only read; {@link FusePatterns} edits.
 */
interface FusionRule {
    /** Short name for the log: the canonical operator. */
    String name();

    /** What the rule says about the pattern around {@code anchor}. */
    Outcome apply(GraphFacts graph, Node anchor);
}
