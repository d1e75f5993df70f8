package dev.octet.converter.expand;

import dev.octet.converter.infer.Analysis;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Attention of opsets 23 to 25: {@code y = softmax(softcap(scale·q·kᵀ) + bias)·v} for each head, with all options of ONNX's definition:
 * heads as an axis or not, groups of query heads that share a head of k and v, caches, softcap, another type in the softmax,
 * the product of q and k as an output.
 *
 * <p>The definition multiplies q and k by the root of the scale each; here q is multiplied by the whole scale, which saves one product. A
 * row that attends to no key is zero ({@link AttentionMasking}).
 */
final class AttentionRewrite {
    private static final int PAST_KEY = 4;
    private static final int PAST_VALUE = 5;
    private static final int SCORES = 3;
    /** From here on masks may have fewer keys. */
    private static final long MASKS_OF_ANY_LENGTH = 24;

    private final Rewriting r;
    private final SharedValues shared;
    private final Node n;
    private final Analysis analysis;
    private final DType dtype;
    private final boolean split;

    AttentionRewrite(Rewriting r, SharedValues shared) {
        this.r = r;
        this.shared = shared;
        this.n = r.node();
        this.analysis = r.analysis();
        this.dtype = r.requireFloat();
        List<Dim> dims = analysis.dims(n.input(0));
        this.split = dims == null ? n.intAttribute("q_num_heads", 0) == 0 : dims.size() == 4;
    }

    void write() {
        long heads = heads(0, "q_num_heads");
        long keyHeads = heads(1, "kv_num_heads");
        if (heads <= 0 || keyHeads <= 0 || heads % keyHeads != 0) {
            throw r.refused("has " + heads + " heads of q for " + keyHeads + " of k and v");
        }
        Long size = size(0, heads);
        Long valueSize = size(2, keyHeads);
        String q = headed(0, heads, size);
        String k = withPast(headed(1, keyHeads, size), PAST_KEY, 1);
        String v = withPast(headed(2, keyHeads, valueSize), PAST_VALUE, 2);
        AttentionMasking.Bias bias =
                new AttentionMasking(r, shared, q, k, keys(), analysis.opset() >= MASKS_OF_ANY_LENGTH).bias(dtype);

        String keysLast = r.transpose(repeated(k, heads, keyHeads, size), List.of(0L, 1L, 3L, 2L));
        String product = r.node("MatMul", r.node("Mul", q, r.e().number(scale(size), dtype)), keysLast);
        scores(0, product);
        String capped = capped(product);
        scores(1, capped);
        String masked = bias.value().isEmpty() ? capped : r.node("Add", capped, bias.value());
        scores(2, masked);
        String p = softmax(masked);
        if (asksForScores(3)) {
            scores(3, bias.blind().isEmpty() ? p : r.node("Where", bias.blind(), r.e().number(0, dtype), p));
        }
        result(p, repeated(v, heads, keyHeads, valueSize), bias, heads, valueSize);
    }

    /** A row that looks at nothing is not a number here, and made zero at the end, where it is short. */
    private void result(String p, String v, AttentionMasking.Bias bias, long heads, @Nullable Long valueSize) {
        if (split && bias.blind().isEmpty()) {
            r.last("MatMul", p, v);
            return;
        }
        String y = r.node("MatMul", p, v);
        if (split) {
            r.last("Where", bias.blind(), r.e().number(0, dtype), y);
            return;
        }
        if (!bias.blind().isEmpty()) {
            y = r.node("Where", bias.blind(), r.e().number(0, dtype), y);
        }
        long width = valueSize == null ? -1 : heads * valueSize;
        String rows = r.transpose(y, List.of(0L, 2L, 1L, 3L));
        r.e().last("Reshape", List.of(rows, r.e().numbers(0, 0, width)));
    }

    private long heads(int input, String attribute) {
        if (!split) {
            return n.intAttribute(attribute, 0);
        }
        Long heads = r.size(input, 1);
        if (heads == null) {
            throw r.refused("has an unknown number of heads in '" + n.input(input) + "'");
        }
        return heads;
    }

    /** Elements of a head of an input; null when not known. */
    private @Nullable Long size(int input, long heads) {
        Long width = r.size(input, split ? 3 : 2);
        return width == null || split ? width : Long.valueOf(width / heads);
    }

    /** How many keys there are, the past included. */
    private Dim keys() {
        List<Dim> dims = analysis.dims(n.input(1));
        return n.hasInput(PAST_KEY) || dims == null ? Dim.UNKNOWN : dims.get(dims.size() - 2);
    }

    private double scale(@Nullable Long size) {
        float scale = n.floatAttribute("scale", 0);
        if (scale != 0) {
            return scale;
        }
        if (size == null) {
            throw r.refused("has heads of unknown size and no scale");
        }
        return 1 / Math.sqrt(size);
    }

    /** An input as [batch, heads, sequence, size]. */
    private String headed(int input, long heads, @Nullable Long size) {
        String x = n.input(input);
        if (split) {
            return x;
        }
        String apart = r.e().node("Reshape", List.of(x, r.e().numbers(0, 0, heads, size == null ? -1 : size)));
        return r.transpose(apart, List.of(0L, 2L, 1L, 3L));
    }

    /** Past keys or values followed by the new ones, which is also the node's output {@code output}. */
    private String withPast(String now, int past, int output) {
        String all =
                n.hasInput(past) ? r.e().node("Concat", List.of(n.input(past), now), Attribute.of("axis", 2L)) : now;
        if (!n.output(output).isEmpty()) {
            r.e().output(output, "Identity", List.of(all));
        }
        return all;
    }

    /** Each head as many times in succession as there are heads of q for it. */
    private String repeated(String x, long heads, long keyHeads, @Nullable Long size) {
        long group = heads / keyHeads;
        if (group == 1) {
            return x;
        }
        if (size == null) {
            throw r.refused("has heads of unknown size");
        }
        String apart = r.node("Unsqueeze", x, r.e().numbers(2));
        String wide = r.node("Expand", apart, r.e().numbers(1, 1, group, 1, 1));
        return r.e().node("Reshape", List.of(wide, r.e().numbers(0, heads, -1, size)));
    }

    private String capped(String scores) {
        float cap = n.floatAttribute("softcap", 0);
        if (cap == 0) {
            return scores;
        }
        String number = r.number(cap);
        return r.node("Mul", r.node("Tanh", r.node("Div", scores, number)), number);
    }

    private String softmax(String scores) {
        DType precision = DType.ofOnnxId((int) n.intAttribute("softmax_precision", dtype.onnxId()))
                .orElseThrow(() -> r.refused("has an unknown softmax_precision"));
        String wide = r.e().cast(scores, dtype, precision);
        String p = r.e().node("Softmax", List.of(wide), Attribute.of("axis", -1L));
        return r.e().cast(p, precision, dtype);
    }

    private boolean asksForScores(int mode) {
        return !n.output(SCORES).isEmpty() && n.intAttribute("qk_matmul_output_mode", 0) == mode;
    }

    private void scores(int mode, String value) {
        if (asksForScores(mode)) {
            r.e().output(SCORES, "Identity", List.of(value));
        }
    }
}
