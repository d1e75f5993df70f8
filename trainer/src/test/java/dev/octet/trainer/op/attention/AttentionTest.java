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
        all.addAll(tiles());
        return all;
    }

    /** Head sizes of tensor cores, padded ones among them; lengths that end within a tile, in tiles of every kind. */
    private static List<Case> tiles() {
        List<Case> all = new ArrayList<>();
        Attribute causal = Attribute.of("is_causal", 1);
        for (long size : new long[] {40, 64, 80, 96, 128}) {
            DType type = size % 64 == 0 ? DType.BF16 : DType.F16;
            OperandType q = f32(1, 1, 70, size).as(type);
            all.add(attention("tiles of heads of " + size, q, q, q, null));
            // more queries than a block has, of 128 at most
            OperandType more = f32(1, 1, 150, size).as(type);
            all.add(attention("causal tiles of heads of " + size, more, more, more, null, causal));
        }
        all.add(attention(
                "tiles, heads together, grouped, causal",
                f32(2, 20, 256).as(DType.BF16),
                f32(2, 20, 128).as(DType.BF16),
                f32(2, 20, 128).as(DType.BF16),
                null,
                Attribute.of("q_num_heads", 4),
                Attribute.of("kv_num_heads", 2),
                causal));
        OperandType few = f32(1, 2, 3, 80).as(DType.BF16);
        OperandType many = f32(1, 2, 140, 80).as(DType.BF16);
        all.add(attention("few queries, many keys", few, many, many, null));
        all.add(attention("few queries, many keys, causal", few, many, many, null, causal));
        all.add(attention("many queries, few keys, causal", many, few, few, null, causal));
        OperandType pair = f32(2, 2, 70, 64).as(DType.BF16);
        all.add(attention(
                "tiles, mask of queries and keys",
                pair,
                pair,
                pair,
                f32(1, 1, 70, 70).as(DType.BF16)));
        all.add(attention("tiles, mask of heads, causal", pair, pair, pair, f32(2, 70, 70), causal));
        all.add(attention(
                "tiles, where samples look", pair, pair, pair, new OperandType(DType.BOOL, Shape.of(2, 1, 1, 70))));
        OperandType high = f32(1, 2, 66, 96).as(DType.F16);
        all.add(attention(
                "tiles of F16, mask", high, high, high, f32(1, 2, 66, 66).as(DType.F16)));
        OperandType highest = f32(1, 2, 66, 128).as(DType.F16);
        all.add(attention(
                "tiles of heads of 128, where they look",
                highest,
                highest,
                highest,
                new OperandType(DType.BOOL, Shape.of(66, 66)),
                causal));
        all.add(hidingTiles());
        OperandType queries = f32(2, 4, 150, 64).as(DType.BF16);
        OperandType sharedKeys = f32(2, 2, 150, 64).as(DType.BF16);
        all.add(padded("tiles, padding at the end, grouped, causal", queries, sharedKeys, causal));
        OperandType image = f32(2, 1, 150, 80).as(DType.F16);
        all.add(padded("tiles of heads of 80, padding at the end", image, image));
        OperandType large = f32(2, 1, 70, 128).as(DType.BF16);
        all.add(padded("tiles of heads of 128, padding at the end, causal", large, large, causal));
        // what tensor cores do not take: another type, values of another size, a head too large, a negative
        // scale
        OperandType wide = f32(1, 1, 37, 256);
        all.add(attention("heads of 256", wide.as(DType.BF16), wide.as(DType.BF16), wide.as(DType.BF16), null, causal));
        all.add(attention("F32 heads of 256", wide, wide, wide, null));
        OperandType short64 = f32(1, 2, 20, 64).as(DType.BF16);
        all.add(attention(
                "values of another size", short64, short64, f32(1, 2, 20, 72).as(DType.BF16), null));
        all.add(attention("negative scale", short64, short64, short64, null, Attribute.of("scale", -0.1f)));
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

    /** Whole tiles of keys that nobody sees, queries that see nothing, and the lowest number of F32 as exporters write it. */
    private static Case hidingTiles() {
        OperandType x = f32(1, 2, 140, 32).as(DType.F16);
        Case c = attention("tiles, much is hidden", x, x, x, f32(1, 1, 140, 140));
        double[] mask = new double[140 * 140];
        for (int i = 0; i < 140; i++) {
            for (int j = 0; j < 140; j++) {
                boolean seen = i != 3 && (i < 60 ? j % 7 == i % 7 && j >= 70 : j < 5);
                mask[i * 140 + j] = seen ? 0 : i % 2 == 1 ? Double.NEGATIVE_INFINITY : -Float.MAX_VALUE;
            }
        }
        List<double @Nullable []> inputs = new ArrayList<>(c.inputs());
        inputs.set(3, mask);
        return new Case(c.name(), c.op(), c.types(), inputs);
    }

    /** A sample whose keys are all there, and one that lacks the last 50 and the fourth: whole tiles, parts of tiles and tiles that are hidden. */
    private static Case padded(String name, OperandType q, OperandType k, Attribute... attributes) {
        int length = (int) k.shape().dim(-2);
        OperandType mask = new OperandType(DType.BOOL, Shape.of(2, 1, 1, length));
        Case c = attention(name, q, k, k, mask, attributes);
        double[] there = new double[2 * length];
        Arrays.fill(there, 1);
        for (int j = length - 50; j < length; j++) {
            there[length + j] = 0;
        }
        there[length + 3] = 0;
        List<double @Nullable []> inputs = new ArrayList<>(c.inputs());
        inputs.set(3, there);
        return new Case(c.name(), c.op(), c.types(), inputs);
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
