package dev.octet.converter.expand;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import java.util.List;

/**
 * Which keys the queries of an Attention attend to, from ONNX's definition (opset 25): query i is at position p = i + offset, and attends
 * to key j
 *
 * <ol>
 *   <li>where a boolean mask is true;
 *   <li>with {@code is_causal}, at j ≤ p;
 *   <li>with windows, at p - left ≤ j ≤ p + right;
 *   <li>with {@code nonpad_kv_seqlen}, at j below that number, one for each sample.
 * </ol>
 *
 * <p>The offset is the length of {@code past_key}; else, with {@code nonpad_kv_seqlen}, that number less the count of queries; else 0. A
 * mask of floats is added to the scores as well.
 *
 * @param shared between the attentions of a model
 * @param q [batch, heads, queries, size]
 * @param k [batch, heads, keys, size], the past included
 * @param keys how many they are, as far as known
 * @param pads whether a mask of fewer keys hides the others, as it does from opset 24 on
 */
record AttentionMasking(Rewriting r, SharedValues shared, String q, String k, Dim keys, boolean pads) {
    private static final int MASK = 3;
    private static final int PAST = 4;
    private static final int NONPAD = 6;

    /**
     * The summand of the scores.
     *
     * @param value broadcast to [batch, heads, queries, keys]; minus infinity where nothing is looked at; empty when everything is
     * @param blind true for rows that attend to no key, with one key; empty when such rows cannot occur
     */
    record Bias(String value, String blind) {
        static final Bias NONE = new Bias("", "");
    }

    /** The bias of this attention, perhaps computed for another one. */
    Bias bias(DType dtype) {
        Node n = r.node();
        boolean causal = causal();
        if (!n.hasInput(MASK) && !n.hasInput(NONPAD) && !positioned()) {
            return Bias.NONE;
        }
        Dim queries = queries();
        boolean sure = (queries.isKnown() || queries.symbol() != null) && (keys.isKnown() || keys.symbol() != null);
        String past = n.hasInput(PAST) ? n.input(PAST) : "";
        List<Object> key = List.of(
                "Attention",
                n.input(MASK),
                n.input(NONPAD),
                past,
                causal,
                left(),
                right(),
                dtype,
                pads,
                sure ? List.of(queries, keys) : n.id());
        return shared.get(key, Bias.class, () -> made(dtype));
    }

    private boolean causal() {
        return r.node().intAttribute("is_causal", 0) != 0;
    }

    private long left() {
        return r.node().intAttribute("left_window_size", -1);
    }

    private long right() {
        return r.node().intAttribute("right_window_size", -1);
    }

    private boolean positioned() {
        return causal() || left() >= 0 || right() >= 0;
    }

    private Dim queries() {
        List<Dim> dims = r.analysis().dims(r.x());
        return dims == null || dims.size() < 3 ? Dim.UNKNOWN : dims.get(dims.size() - 2);
    }

    private Bias made(DType dtype) {
        Node n = r.node();
        String looks = looks();
        String added = "";
        if (n.hasInput(MASK)) {
            DType mask = r.analysis().dtype(n.input(MASK));
            if (mask == DType.BOOL) {
                looks = both(looks, padded(n.input(MASK), 0, DType.BOOL));
            } else if (mask == dtype) {
                added = padded(n.input(MASK), Double.NEGATIVE_INFINITY, dtype);
            } else {
                throw r.refused("has a mask of type " + mask + " for scores of type " + dtype);
            }
        }
        String value = added;
        if (!looks.isEmpty()) {
            String open = added.isEmpty() ? r.e().number(0, dtype) : added;
            value = r.node("Where", looks, open, r.e().number(Double.NEGATIVE_INFINITY, dtype));
        }
        return new Bias(value, everyRowLooks() ? "" : blind(value, dtype));
    }

    /** Key 0 is open to all of a causal attention without anything else, and every position to itself. */
    private boolean everyRowLooks() {
        Node n = r.node();
        return !n.hasInput(MASK) && !n.hasInput(NONPAD) && left() < 0;
    }

    private String blind(String bias, DType dtype) {
        String highest = r.e().node("ReduceMax", List.of(bias, r.e().numbers(-1)), Attribute.of("keepdims", 1L));
        return r.node("Equal", highest, r.e().number(Double.NEGATIVE_INFINITY, dtype));
    }

    /** Cases 2 to 4, broadcast to [batch, heads, queries, keys]; empty when nothing is hidden by them. */
    private String looks() {
        Node n = r.node();
        String looks = "";
        if (!positioned() && !n.hasInput(NONPAD)) {
            return looks;
        }
        String j = range(length(k));
        String lengths = n.hasInput(NONPAD) ? r.node("Unsqueeze", n.input(NONPAD), r.e().numbers(1, 2, 3)) : "";
        if (positioned()) {
            String i = r.node("Unsqueeze", range(length(q)), r.e().numbers(1));
            String p = i;
            if (n.hasInput(PAST)) {
                p = r.node("Add", i, length(n.input(PAST)));
            } else if (n.hasInput(NONPAD)) {
                p = r.node("Add", i, r.node("Sub", lengths, length(q)));
            }
            if (causal()) {
                looks = r.node("LessOrEqual", j, p); // case 2
            }
            if (left() >= 0) {
                String from = r.node("Sub", p, r.e().numbers(left()));
                looks = both(looks, r.node("GreaterOrEqual", j, from)); // case 3
            }
            if (right() >= 0) {
                String to = r.node("Add", p, r.e().numbers(right()));
                looks = both(looks, r.node("LessOrEqual", j, to)); // case 3
            }
        }
        return n.hasInput(NONPAD) ? both(looks, r.node("Less", j, lengths)) : looks; // case 4
    }

    private String both(String a, String b) {
        return a.isEmpty() ? b : r.node("And", a, b);
    }

    /** Length of the sequence of [batch, heads, sequence, size], a vector of one number. */
    private String length(String value) {
        return r.e().node("Shape", List.of(value), Attribute.of("start", 2L), Attribute.of("end", 3L));
    }

    private String range(String length) {
        Expansion e = r.e();
        String end = r.node("Squeeze", length, e.numbers(0));
        return r.node("Range", e.number(0, DType.I64), end, e.number(1, DType.I64));
    }

    /** A mask extended with {@code hidden} for the keys it does not cover. */
    private String padded(String mask, double hidden, DType type) {
        List<Dim> dims = r.analysis().dims(mask);
        if (!pads || (dims != null && !dims.isEmpty() && dims.getLast().sameAs(keys))) {
            return mask;
        }
        Expansion e = r.e();
        String has = e.node("Shape", List.of(mask), Attribute.of("start", -1L));
        String more = r.node("Sub", length(k), has);
        String both = e.node("Concat", List.of(e.numbers(0), more), Attribute.of("axis", 0L));
        return r.node("Pad", mask, both, e.number(hidden, type), e.numbers(-1));
    }
}
