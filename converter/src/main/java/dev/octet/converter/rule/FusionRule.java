package dev.octet.converter.rule;

import dev.octet.formats.graph.Node;

/**
 * One pattern and its replacement. A rule is tried at every node; it matches at its pattern's <em>anchor</em>, a node that is rare
 * elsewhere, for example {@code Erf}. Rules only read; {@link FusePatterns} edits.
 */
interface FusionRule {
    /** Short name for the log: the canonical operator. */
    String name();

    /** The outcome for the pattern around {@code anchor}. */
    Outcome apply(GraphFacts graph, Node anchor);
}
