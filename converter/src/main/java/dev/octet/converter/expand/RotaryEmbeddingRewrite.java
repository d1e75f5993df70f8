package dev.octet.converter.expand;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Node;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * RotaryEmbedding of opset 23: pairs (a, b) of a head's elements become (a·cos - b·sin, a·sin + b·cos). x is [batch, heads, sequence, size]
 * or [batch, sequence, heads·size]; tables are [positions, rotated / 2] with position ids [batch, sequence], else
 * [batch or 1, sequence, rotated / 2]: a table for one sample serves all, which ONNX Runtime's own operator refuses.
 */
final class RotaryEmbeddingRewrite {
    private static final long TO_THE_END = Long.MAX_VALUE;

    private RotaryEmbeddingRewrite() {}

    static void write(Rewriting r, SharedValues shared) {
        Node n = r.node();
        long heads = n.intAttribute("num_heads", 0);
        List<Dim> dims = r.analysis().dims(r.x());
        boolean split = dims == null ? heads == 0 : dims.size() == 4;
        Long width = dims == null ? null : dims.getLast().size();
        if (!split && heads <= 0) {
            throw r.refused("has three axes and no num_heads");
        }
        Long size = split || width == null ? width : Long.valueOf(width / heads);
        String x = split
                ? r.x()
                : r.e().node("Reshape", List.of(r.x(), r.e().numbers(0, 0, heads, size == null ? -1 : size)));
        long rotated = n.intAttribute("rotary_embedding_dim", 0);
        boolean whole = rotated == 0 || (size != null && size == rotated);
        List<String> parts = new ArrayList<>(rotated(
                r, whole ? x : slice(r, x, 0, rotated, 1), rows(r, shared, split), whole ? size : (Long) rotated));
        if (!whole) {
            parts.add(slice(r, x, rotated, TO_THE_END, 1));
        }
        if (split && parts.size() > 1) {
            r.e().last("Concat", parts, Attribute.of("axis", -1L));
        } else if (split) {
            r.last("Identity", parts.getFirst());
        } else {
            String all = parts.size() == 1 ? parts.getFirst() : concat(r, parts);
            r.e().last("Reshape", List.of(all, r.e().numbers(0, 0, width == null ? -1 : width)));
        }
    }

    /** Cosines and sines of each position, with an axis for heads. */
    private record Angles(String cos, String sin) {}

    private static Angles rows(Rewriting r, SharedValues shared, boolean split) {
        return new Angles(row(r, shared, 1, split), row(r, shared, 2, split));
    }

    private static String row(Rewriting r, SharedValues shared, int input, boolean split) {
        Node n = r.node();
        String table = n.input(input);
        String ids = n.hasInput(3) ? n.input(3) : "";
        return shared.get(List.of("RotaryEmbedding", table, ids, split), String.class, () -> {
            String row = ids.isEmpty() ? table : r.e().node("Gather", List.of(table, ids), Attribute.of("axis", 0L));
            return r.node("Unsqueeze", row, r.e().numbers(split ? 1 : 2));
        });
    }

    /**
     * Parts that make up the rotated elements.
     *
     * @param size of the last axis; null when not known
     */
    private static List<String> rotated(Rewriting r, String x, Angles angles, @Nullable Long size) {
        boolean neighbours = r.node().intAttribute("interleaved", 0) != 0;
        String a;
        String b;
        if (neighbours) {
            a = slice(r, x, 0, TO_THE_END, 2);
            b = slice(r, x, 1, TO_THE_END, 2);
        } else {
            if (size == null) {
                throw r.refused("has heads of unknown size");
            }
            a = slice(r, x, 0, size / 2, 1);
            b = slice(r, x, size / 2, TO_THE_END, 1);
        }
        String first = r.node("Sub", r.node("Mul", a, angles.cos()), r.node("Mul", b, angles.sin()));
        String second = r.node("Add", r.node("Mul", a, angles.sin()), r.node("Mul", b, angles.cos()));
        if (!neighbours) {
            return List.of(first, second);
        }
        String last = r.e().numbers(-1);
        String pairs = concat(r, List.of(r.node("Unsqueeze", first, last), r.node("Unsqueeze", second, last)));
        return List.of(r.e().node("Reshape", List.of(pairs, r.e().numbers(0, 0, 0, size == null ? -1 : size))));
    }

    private static String slice(Rewriting r, String x, long from, long to, long step) {
        Expansion e = r.e();
        return r.node("Slice", x, e.numbers(from), e.numbers(to), e.numbers(-1), e.numbers(step));
    }

    private static String concat(Rewriting r, List<String> parts) {
        return r.e().node("Concat", parts, Attribute.of("axis", -1L));
    }
}
