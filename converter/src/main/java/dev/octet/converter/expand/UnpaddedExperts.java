package dev.octet.converter.expand;

import dev.octet.converter.rule.CanonicalOps;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Keeps padding from experts, for statistics: the rows of an expert do not show which token they are of, so padding must not be among them. Real tokens
 * do not see padding, so nothing changes for them.
 */
public final class UnpaddedExperts {
    /** The input that is 0 where a token is padding. */
    private static final String MASK = "attention_mask";

    private UnpaddedExperts() {}

    /** The model whose experts get no padding; the same object where it has no experts, or no mask. */
    public static GraphModel apply(GraphModel canonical) {
        List<Node> rows = canonical.graph().nodes().stream()
                .filter(n -> n.isOctet(CanonicalOps.EXPERT_ROWS) && n.intAttribute(Node.UNMASKED, 0) == 0)
                .toList();
        boolean masked =
                canonical.graph().inputs().stream().anyMatch(i -> i.name().equals(MASK));
        if (rows.isEmpty() || !masked) {
            return canonical;
        }
        GraphEdit edit = GraphEdit.of(canonical.graph());
        Map<String, String> unpadded = new HashMap<>();
        for (Node n : rows) {
            String chosen = unpadded.computeIfAbsent(n.input(1), c -> choices(edit, n));
            List<String> inputs = new ArrayList<>(n.inputs());
            inputs.set(1, chosen);
            edit.replace(n, n.withInputs(inputs));
        }
        return canonical.withGraph(edit.build());
    }

    /** The choices of tokens; of padding -1, which no expert is. */
    private static String choices(GraphEdit edit, Node rows) {
        Expansion e = new Expansion(edit, rows);
        String k = e.numbers(-1, rows.intAttribute("choices", 1));
        String real = node(edit, rows, "Cast", List.of(node(edit, rows, "Reshape", List.of(MASK, e.numbers(-1, 1)))));
        String byToken = node(edit, rows, "Reshape", List.of(rows.input(1), k));
        String kept = node(edit, rows, "Where", List.of(real, byToken, e.number(-1, DType.I64)));
        return node(edit, rows, "Reshape", List.of(kept, e.numbers(-1)));
    }

    /** Names of their own: the nodes that the rows are later written as are named after the rows, too. */
    private static String node(GraphEdit edit, Node rows, String op, List<String> inputs) {
        String value = edit.freshName(rows.input(1) + "/unpadded/" + op);
        Node n = Node.of(value, op, inputs, List.of(value));
        edit.insertBefore(rows, op.equals("Cast") ? n.with(Attribute.of("to", DType.BOOL.onnxId())) : n);
        return value;
    }
}
