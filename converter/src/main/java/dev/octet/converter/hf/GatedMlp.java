package dev.octet.converter.hf;

import java.util.List;

/**
 * A gated MLP: {@code down(act(gate(x)) * up(x))}.
 *
 * @param hidden elements of a token outside
 * @param inner elements within
 * @param activation by transformers' name
 * @param bias whether its Linears have biases
 */
record GatedMlp(int hidden, int inner, String activation, boolean bias) {
    /** The MLP of a module, over the last axis of x. */
    String emit(GraphDraft draft, String module, String gate, String up, String down, String x) {
        String gated = draft.linear(module + "." + gate, x, hidden, inner, bias);
        String wide = draft.linear(module + "." + up, x, hidden, inner, bias);
        return down(draft, module, down, gated, wide);
    }

    /** The same where gate and up are the halves of one Linear. */
    String emitFused(GraphDraft draft, String module, String both, String down, String x) {
        String fused = module + "." + both;
        List<String> halves =
                draft.split(GraphDraft.path(fused), draft.linear(fused, x, hidden, 2 * inner, bias), inner, inner);
        return down(draft, module, down, halves.get(0), halves.get(1));
    }

    /** The same where weights lie as [in, out], without {@code .weight} in their names; without biases. */
    String emitTransposed(GraphDraft draft, String module, String both, String down, String x) {
        String fused = module + "." + both;
        String all = draft.linear(fused, x, draft.stored(fused, hidden, 2L * inner), null, 0);
        List<String> halves = draft.split(GraphDraft.path(fused), all, inner, inner);
        String product = product(draft, module, halves.get(0), halves.get(1));
        String last = module + "." + down;
        return draft.linear(last, product, draft.stored(last, inner, hidden), null, 0);
    }

    private String down(GraphDraft draft, String module, String down, String gated, String wide) {
        return draft.linear(module + "." + down, product(draft, module, gated, wide), inner, hidden, bias);
    }

    private String product(GraphDraft draft, String module, String gated, String wide) {
        String path = GraphDraft.path(module);
        String active = Activations.emit(draft, path + "/act_fn", activation, gated);
        return draft.op(path + "/Mul", "Mul", List.of(active, wide));
    }
}
