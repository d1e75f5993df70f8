package dev.octet.converter.rule;

import dev.octet.formats.graph.Node;
import dev.octet.quant.layout.AttentionInput;

/**
 * An ONNX Attention node, whose first three inputs are queries, keys and values: {@code [batch, heads, length, size]}, or
 * {@code [batch, length, heads * size]} with the heads in attributes.
 *
 * @param node an Attention
 */
public record AttentionNode(Node node) {
    /** Where this input stands in the list of the node's. */
    public static int index(AttentionInput input) {
        return switch (input) {
            case Q -> 0;
            case K -> 1;
            case V -> 2;
        };
    }

    /** The name of a value. */
    public String value(AttentionInput input) {
        return node.input(index(input));
    }

    /** Heads that lie side by side in a value of three axes; 0 where the node does not say, as for values of four. */
    public int joinedHeads(AttentionInput input) {
        String attribute = switch (input) {
            case Q -> "q_num_heads";
            case K, V -> "kv_num_heads";
        };
        return Math.clamp(node.intAttribute(attribute, 0), 0, Integer.MAX_VALUE);
    }
}
