package dev.octet.converter.infer;

import dev.octet.formats.graph.Node;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** Which rule derives the types of which operator. One more operator is one more line in one of the tables joined here. */
final class TypeRules {
    private static final Map<String, TypeRule> ONNX = join(
            ElementwiseTypes.RULES,
            ShapeTypes.RULES,
            IndexTypes.RULES,
            ReductionTypes.RULES,
            MatrixTypes.RULES,
            LayerTypes.RULES);

    private static final Map<String, TypeRule> OCTET = Map.of(
            "Linear", MatrixTypes::linear,
            "LayerNormalization", ElementwiseTypes::same,
            "RMSNormalization", ElementwiseTypes::same,
            "Gelu", ElementwiseTypes::same);

    private TypeRules() {}

    /** The rule for {@code node}; null when its operator is not known. */
    static @Nullable TypeRule of(Node node) {
        return switch (node.domain()) {
            case "" -> ONNX.get(node.opType());
            case Node.OCTET_DOMAIN -> OCTET.get(node.opType());
            default -> null;
        };
    }

    /** Operators of the default domain that have a rule. */
    static Set<String> operators() {
        return ONNX.keySet();
    }

    @SafeVarargs
    private static Map<String, TypeRule> join(Map<String, TypeRule>... tables) {
        Map<String, TypeRule> all = new HashMap<>();
        for (Map<String, TypeRule> table : tables) {
            table.forEach((op, rule) -> {
                if (all.put(op, rule) != null) {
                    throw new IllegalStateException("two type rules for " + op);
                }
            });
        }
        return Map.copyOf(all);
    }
}
