package dev.octet.converter.infer;

import dev.octet.formats.graph.Node;
import dev.octet.formats.op.Operator;
import dev.octet.formats.op.OperatorTable;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** The rule that derives the types of an operator's outputs: by {@link Operator#output}, or by name where the operator has its own. */
final class TypeRules {
    /** Rules of operators that have their own. */
    private static final Map<String, TypeRule> OWN = join(
            ElementwiseTypes.RULES,
            ShapeTypes.RULES,
            IndexTypes.RULES,
            MatrixTypes.RULES,
            LayerTypes.RULES,
            ExpertTypes.RULES);

    private TypeRules() {}

    /** The rule for {@code node}; null when its operator has none. */
    static @Nullable TypeRule of(Node node) {
        Operator operator = OperatorTable.of(node).orElse(null);
        return operator == null
                ? null
                : switch (operator.output()) {
                    case SAME_AS_INPUT -> ElementwiseTypes::same;
                    case BROADCAST -> ElementwiseTypes::broadcast;
                    case COMPARISON -> ElementwiseTypes::compare;
                    case PREDICATE -> ElementwiseTypes::predicate;
                    case REDUCTION -> ReductionTypes::reduce;
                    case OWN_RULE -> OWN.get(operator.name());
                    case UNKNOWN -> null;
                };
    }

    /** Names of the operators with a rule of their own. */
    static Set<String> own() {
        return OWN.keySet();
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
