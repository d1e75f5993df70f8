package dev.octet.converter.pass;

import dev.octet.formats.graph.Node;
import java.util.List;

/**
 * What a new version of one operator means for a node written for the version before.
 *
 * @param op operator of the default domain
 * @param version the operator set version that changed it
 * @param change what changed, for readers of the table
 * @param rewrite the same computation written for {@code version}
 */
record UpgradeRule(String op, int version, String change, Rewrite rewrite) {
    /** Nodes that together compute what {@code node} did; usually the node itself with something moved. */
    @FunctionalInterface
    interface Rewrite {
        /** @throws dev.octet.formats.error.UnsupportedModelException when the new version cannot express the node */
        List<Node> apply(Node node, UpgradeScope scope);
    }
}
