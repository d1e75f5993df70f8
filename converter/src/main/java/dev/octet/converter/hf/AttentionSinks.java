package dev.octet.converter.hf;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Shape;
import java.util.List;
import java.util.Map;

/**
 * Attention whose heads may look at nothing: each has a learned score, its sink, that takes part in the softmax and adds no value (gpt-oss). Written with
 * ordinary attention: a key in front of the tokens' that all queries see, with a value of zero. Heads of q and k get one element more, which is 0 in
 * the tokens' keys, 1 in that key, and the sink divided by the scale in each query: so tokens' scores stay as they are, and that key's is the
 * sink. Source: transformers/models/gpt_oss/modeling_gpt_oss.py.
 *
 * @param heads of attention without sinks
 * @param size of a head
 */
record AttentionSinks(AttentionHeads heads, int size) {
    /** The attention of the module over q, k and v [batch, sequence, heads·size]. */
    String attend(GraphDraft draft, Tokens tokens, String module, String q, String k, String v, String mask) {
        String path = GraphDraft.path(module) + "/sinks";
        int count = heads.heads();
        int keyHeads = heads.keyHeads();
        String sinks = draft.widened(module + ".sinks", count);
        String inverse = draft.floats("sinks_inverse_scale", Shape.SCALAR, 1 / heads.scale());
        String column = draft.op(
                path + "/Reshape",
                "Reshape",
                List.of(
                        draft.op(path + "/Mul", "Mul", List.of(sinks, inverse)),
                        draft.longs("sinks_" + count, Shape.of(4), 1, 1, count, 1)));
        String queries = widened(draft, tokens, path + "/q", q, count, column);
        String zero = draft.floats("sinks_zero", Shape.of(1, 1, 1, 1), 0);
        String keys = widened(draft, tokens, path + "/k", k, keyHeads, zero);
        // in front of each sample's keys and values
        float[] first = new float[keyHeads * (size + 1)];
        for (int h = 1; h <= keyHeads; h++) {
            first[h * (size + 1) - 1] = 1;
        }
        String key = draft.floats("sinks_key", Shape.of(1, 1, first.length), first);
        String value = draft.floats("sinks_value", Shape.of(1, 1, (long) keyHeads * size), new float[keyHeads * size]);
        keys = inFront(draft, tokens, path + "/k", key, first.length, keys);
        String values = inFront(draft, tokens, path + "/v", value, keyHeads * size, v);
        AttentionHeads open =
                new AttentionHeads(count, keyHeads, size + 1, size, heads.scale(), false, heads.softcap());
        String y = open.attend(draft, module, queries, keys, values, tokens.behindOne(mask));
        draft.mark(Map.of(Node.SINKS, "1"));
        return y;
    }

    /** Each head with one element more, [batch, sequence, heads·(size + 1)]. */
    private String widened(GraphDraft draft, Tokens tokens, String path, String x, int count, String element) {
        String shape = draft.longs("heads_" + count + "_of_" + size, Shape.of(4), 0, 0, count, size);
        String byHead = draft.op(path + "/Reshape", "Reshape", List.of(x, shape));
        String last = draft.op(path + "/Expand", "Expand", List.of(element, tokens.shapeOf(count, 1)));
        String both = draft.op(path + "/Concat", "Concat", List.of(byHead, last), Attribute.of("axis", -1));
        long width = count * (size + 1L);
        return draft.op(
                path + "/Reshape_joined",
                "Reshape",
                List.of(both, draft.longs("joined_" + width, Shape.of(3), 0, 0, width)));
    }

    /** {@code row} before the rows of each sample. */
    private String inFront(GraphDraft draft, Tokens tokens, String path, String row, int width, String x) {
        String batch = draft.op(
                path + "/Slice",
                "Slice",
                List.of(
                        tokens.shapeOf(width),
                        draft.longs("from_0", Shape.of(1), 0),
                        draft.longs("to_1", Shape.of(1), 1)));
        String shape = draft.op(
                path + "/Concat_shape",
                "Concat",
                List.of(batch, draft.longs("row_of_" + width, Shape.of(2), 1, width)),
                Attribute.of("axis", 0));
        String rows = draft.op(path + "/Expand_row", "Expand", List.of(row, shape));
        return draft.op(path + "/Concat_rows", "Concat", List.of(rows, x), Attribute.of("axis", 1));
    }
}
