package dev.octet.converter.hf;

/**
 * T5's MLP without a gate: {@code wo(act(wi(x)))}, without biases.
 *
 * @param hidden elements of a token outside
 * @param inner elements within
 * @param activation by transformers' name
 */
record PlainMlp(int hidden, int inner, String activation) {
    /** The MLP of a module, over the last axis of x. */
    String emit(GraphDraft draft, String module, String x) {
        String wide = draft.linear(module + ".wi", x, hidden, inner, false);
        String active = Activations.emit(draft, GraphDraft.path(module) + "/act", activation, wide);
        return draft.linear(module + ".wo", active, inner, hidden, false);
    }
}
