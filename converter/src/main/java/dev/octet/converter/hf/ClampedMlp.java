package dev.octet.converter.hf;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.tensor.Shape;
import java.util.List;

/**
 * gpt-oss's expert: {@code down((clamp(u) + 1) * clamp(g) * sigmoid(1.702 * clamp(g)))}, where g and u are the even and the odd outputs of one
 * Linear. Source: transformers/models/gpt_oss/modeling_gpt_oss.py.
 *
 * @param hidden elements of a token outside
 * @param inner elements within
 * @param limit of g from above, and of u on both sides
 */
record ClampedMlp(int hidden, int inner, float limit) {
    private static final float ALPHA = 1.702f;

    /** The expert at {@code module} over rows [n, hidden]. */
    String emit(GraphDraft draft, String module, String rows) {
        String path = GraphDraft.path(module);
        String both = linear(draft, module, "gate_up_proj", rows, hidden, 2 * inner);
        String pairs = draft.op(
                path + "/Reshape",
                "Reshape",
                List.of(both, draft.longs("pairs_of_" + inner, Shape.of(3), 0, inner, 2)));
        String highest = draft.floats("swiglu_limit", Shape.SCALAR, limit);
        String gate = draft.op(path + "/Min", "Min", List.of(of(draft, path, pairs, 0), highest));
        String up = draft.op(
                path + "/Clip",
                "Clip",
                List.of(of(draft, path, pairs, 1), draft.floats("swiglu_least", Shape.SCALAR, -limit), highest));
        String alpha = draft.floats("swiglu_alpha", Shape.SCALAR, ALPHA);
        String open =
                draft.op(path + "/Sigmoid", "Sigmoid", List.of(draft.op(path + "/Mul", "Mul", List.of(gate, alpha))));
        String active = draft.op(path + "/Mul", "Mul", List.of(gate, open));
        String one = draft.floats("swiglu_one", Shape.SCALAR, 1);
        String product =
                draft.op(path + "/Mul", "Mul", List.of(draft.op(path + "/Add", "Add", List.of(up, one)), active));
        return linear(draft, module, "down_proj", product, inner, hidden);
    }

    private static String of(GraphDraft draft, String path, String pairs, int which) {
        String index = draft.longs("pair_" + which, Shape.of(), which);
        return draft.op(path + "/Gather", "Gather", List.of(pairs, index), Attribute.of("axis", 2));
    }

    /** A Linear whose weight lies as [in, out], without {@code .weight} in its name. */
    private static String linear(GraphDraft draft, String module, String name, String x, int in, int out) {
        String weight = draft.stored(module + "." + name, in, out);
        String bias = draft.stored(module + "." + name + "_bias", out);
        return draft.linear(module + "." + name, x, weight, bias, 0);
    }
}
