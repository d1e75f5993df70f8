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
        String path = GraphDraft.path(module);
        String active = Activations.emit(draft, path + "/act_fn", activation, gated);
        String product = draft.op(path + "/Mul", "Mul", List.of(active, wide));
        return draft.linear(module + "." + down, product, inner, hidden, bias);
    }
}
