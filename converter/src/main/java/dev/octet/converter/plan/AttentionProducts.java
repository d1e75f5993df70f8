package dev.octet.converter.plan;

import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.Node;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Finds the two products of attention in a canonical graph: a MatMul of two computed values that reads what a Softmax makes, and the one that
 * the Softmax reads.
 */
final class AttentionProducts {
    /** What stands between the products and the Softmax: scaling, masks, guards against rows without a token. */
    private static final List<String> BETWEEN =
            List.of("Add", "Sub", "Mul", "Div", "Where", "Cast", "Reshape", "Identity", "Transpose", "Dropout", "Clip");

    /** Nodes that the search goes back through. */
    private static final int MAX_STEPS = 12;

    private AttentionProducts() {}

    /** Operators that compute a whole attention, with both products: ONNX's from opset 23 on, ONNX Runtime's own. */
    private static final Set<String> WHOLE = Set.of(
            "Attention",
            "MultiHeadAttention",
            "GroupQueryAttention",
            "PackedAttention",
            "PackedMultiHeadAttention",
            "DecoderMaskedMultiHeadAttention",
            "QAttention",
            "SparseAttention",
            "LongformerAttention");

    /** Whether a node computes both products of attention. */
    static boolean isWhole(Node n) {
        return (n.is("Attention") || n.domain().equals("com.microsoft")) && WHOLE.contains(n.opType());
    }

    /** By identity. */
    static Set<Node> of(GraphEdit graph) {
        Set<Node> found = Collections.newSetFromMap(new IdentityHashMap<>());
        for (Node second : graph.nodes()) {
            if (!isProduct(second, graph)) {
                continue;
            }
            Node softmax = before(second.input(0), "Softmax", graph);
            Node first = softmax == null ? null : before(softmax.input(0), "MatMul", graph);
            if (first != null && isProduct(first, graph)) {
                found.add(first);
                found.add(second);
            }
        }
        return found;
    }

    /** Whether a node multiplies two values that are computed. */
    private static boolean isProduct(Node n, GraphEdit graph) {
        return n.is("MatMul") && graph.producer(n.input(0)) != null && graph.producer(n.input(1)) != null;
    }

    /** The nearest node of an operator that a value comes from; null where others than {@link #BETWEEN} are on the way. */
    private static @Nullable Node before(String value, String operator, GraphEdit graph) {
        Node node = graph.producer(value);
        for (int step = 0; step < MAX_STEPS && node != null; step++) {
            if (node.is(operator)) {
                return node;
            }
            Node at = node;
            node = null;
            if (at.domain().isEmpty() && BETWEEN.contains(at.opType())) {
                for (String input : at.inputs()) { // of a mask and scores, the scores are computed from a product
                    Node producer = graph.producer(input);
                    if (producer == null || (at.is("Where") && input.equals(at.input(0)))) {
                        continue;
                    }
                    if (producer.is(operator) || (node == null && BETWEEN.contains(producer.opType()))) {
                        node = producer;
                    }
                }
            }
        }
        return null;
    }
}
