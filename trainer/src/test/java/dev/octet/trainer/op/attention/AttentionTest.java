package dev.octet.trainer.op.attention;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

class AttentionTest extends TwinTest {
    @Override
    protected List<Case> cases() {
        OperandType q = f32(2, 3, 4, 5);
        OperandType k = f32(2, 3, 6, 5);
        OperandType v = f32(2, 3, 6, 2);
        List<Case> all = new ArrayList<>(List.of(
                attention("one", f32(1, 1, 1, 1), f32(1, 1, 1, 1), f32(1, 1, 1, 1), null),
                attention("heads apart", q, k, v, null),
                attention("heads apart, causal, more keys", q, k, v, null, Attribute.of("is_causal", 1)),
                attention("causal, more queries", k, q, f32(2, 3, 4, 2), null, Attribute.of("is_causal", 1)),
                attention("scaled", q, k, v, null, Attribute.of("scale", 0.3f)),
                attention("mask of all", q, k, v, f32(2, 3, 4, 6)),
                attention("mask of queries and keys", q, k, v, f32(4, 6)),
                attention("mask of samples and keys", q, k, v, f32(2, 1, 1, 6)),
                attention("mask of heads and keys", q, k, v, f32(3, 1, 6)),
                attention("mask and causal", q, k, v, f32(1, 1, 4, 6), Attribute.of("is_causal", 1)),
                attention("grouped", f32(2, 4, 3, 2), f32(2, 2, 3, 2), f32(2, 2, 3, 2), null),
                attention(
                        "heads together",
                        f32(2, 3, 8),
                        f32(2, 5, 8),
                        f32(2, 5, 12),
                        null,
                        Attribute.of("q_num_heads", 4),
                        Attribute.of("kv_num_heads", 4)),
                attention(
                        "heads together, grouped, causal",
                        f32(2, 5, 8),
                        f32(2, 5, 4),
                        f32(2, 5, 6),
                        null,
                        Attribute.of("q_num_heads", 4),
                        Attribute.of("kv_num_heads", 2),
                        Attribute.of("is_causal", 1)),
                attention(
                        "several blocks of queries",
                        f32(1, 2, 70, 8),
                        f32(1, 2, 1100, 8),
                        f32(1, 2, 1100, 8),
                        null,
                        Attribute.of("is_causal", 1)),
                attention("long rows", f32(1, 1, 40, 4), f32(1, 1, 2500, 4), f32(1, 1, 2500, 4), f32(40, 2500))));
        all.add(hidden());
        for (DType narrow : List.of(DType.BF16, DType.F16)) {
            all.add(attention(
                    narrow + ", causal", q.as(narrow), k.as(narrow), v.as(narrow), null, Attribute.of("is_causal", 1)));
            all.add(attention(
                    narrow + ", mask",
                    q.as(narrow),
                    k.as(narrow),
                    v.as(narrow),
                    f32(4, 6).as(narrow)));
        }
        return all;
    }

    /** Probabilities are rounded to the operands' type before they are multiplied: half a unit in the last place of 1. */
    @Override
    protected double tolerance(Case c) {
        return switch (requireNonNull(c.types().getFirst()).dtype()) {
            case BF16 -> 0x1p-8;
            case F16 -> 0x1p-11;
            default -> super.tolerance(c);
        };
    }

    /** A mask of truth values, one query of which may look at nothing. */
    private static Case hidden() {
        OperandType mask = new OperandType(DType.BOOL, Shape.of(3, 4));
        Case c = attention("mask of truth values", f32(1, 2, 3, 4), f32(1, 2, 4, 4), f32(1, 2, 4, 4), mask);
        List<double @Nullable []> inputs = new ArrayList<>(c.inputs());
        inputs.set(3, new double[] {1, 0, 1, 1, 0, 0, 0, 0, 0, 1, 1, 0});
        return new Case(c.name(), c.op(), c.types(), inputs);
    }

    private static Case attention(
            String name,
            OperandType q,
            OperandType k,
            OperandType v,
            @Nullable OperandType mask,
            Attribute... attributes) {
        Node node = Node.of("", "Attention", List.of("q", "k", "v", "mask"), List.of("y"), attributes);
        OpSource source = new OpSource(node, Arrays.asList(q, k, v, mask), Arrays.asList(null, null, null, null), 23);
        Attention op = Attention.read(source);
        return mask == null ? Case.normal(name, op, q, k, v) : Case.normal(name, op, q, k, v, mask);
    }

    @Test
    void a_cap_of_the_scores_is_refused() {
        OperandType q = f32(1, 1, 2, 2);
        assertThrows(
                UnsupportedModelException.class,
                () -> attention("capped", q, q, q, null, Attribute.of("softcap", 30f)));
    }
}
