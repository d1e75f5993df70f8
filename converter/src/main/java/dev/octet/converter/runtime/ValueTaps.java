package dev.octet.converter.runtime;

import dev.octet.converter.rule.AttentionNode;
import dev.octet.converter.rule.CanonicalOps;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.quant.layout.AttentionInput;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * The taps for statistics of a model of one file, named by its values: the inputs of Linears, with their channels; the operands of products of
 * two activations, with their heads: queries, keys and values; the inputs of convolutions. What a Softmax computes lies between 0 and 1 and is not
 * measured, for it is the largest value of all.
 */
public final class ValueTaps {
    private static final Set<String> CONVOLUTIONS = Set.of("Conv", "ConvTranspose");

    private static final List<Long> KEYS_LAST = List.of(0L, 1L, 3L, 2L);

    private ValueTaps() {}

    /**
     * The taps of a canonical model, in the order of its nodes.
     *
     * @param linearInputs values that Linears read and statistics are wanted of
     */
    public static List<Tap> of(GraphModel canonical, Set<String> linearInputs) {
        Graph graph = canonical.graph();
        Map<String, Node> producers = new HashMap<>();
        graph.nodes().forEach(n -> n.outputs().forEach(o -> producers.put(o, n)));
        Map<String, Tap> taps = new LinkedHashMap<>();
        for (Node n : graph.nodes()) {
            if (n.isOctet(CanonicalOps.LINEAR)
                    && linearInputs.contains(n.input(0))
                    && graph.initializers().containsKey(n.input(1))) {
                taps.put(n.input(0), Tap.ofLinear(n.input(0), n.input(0), ModuleTaps.channels(graph, n)));
            }
        }
        for (Node n : graph.nodes()) {
            if (n.is("Attention")) {
                AttentionNode attention = new AttentionNode(n);
                for (AttentionInput input : AttentionInput.values()) {
                    String value = attention.value(input);
                    taps.putIfAbsent(value, Tap.ofAttention(value, attention, input));
                }
            } else if (n.is("MatMul")) {
                operands(n, producers, taps);
            } else if (n.domain().isEmpty() && CONVOLUTIONS.contains(n.opType())) {
                taps.putIfAbsent(n.input(0), Tap.of(n.input(0)));
            }
        }
        linearInputs.stream().filter(v -> !taps.containsKey(v)).forEach(v -> taps.put(v, Tap.of(v)));
        return new ArrayList<>(taps.values());
    }

    private static void operands(Node product, Map<String, Node> producers, Map<String, Tap> taps) {
        if (!producers.containsKey(product.input(0)) || !producers.containsKey(product.input(1))) {
            return; // by a constant, or by an input of the model
        }
        for (String operand : product.inputs()) {
            Node producer = producers.get(operand);
            if (producer != null && !producer.is("Softmax")) {
                taps.putIfAbsent(operand, Tap.ofHeads(operand, untransposed(operand, producer)));
            }
        }
    }

    /** Keys are transposed for the product; before, they lie as [batch, heads, length, size]. */
    private static String untransposed(String value, @Nullable Node producer) {
        if (producer == null || !producer.is("Transpose")) {
            return value;
        }
        return producer.intsAttribute("perm").filter(KEYS_LAST::equals).isPresent() ? producer.input(0) : value;
    }
}
