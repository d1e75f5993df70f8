package dev.octet.converter.hf;

import org.jspecify.annotations.Nullable;

/**
 * Layers that normalise before attention and before an MLP of two Linears, with biases, by the names that CLIP and SigLIP give them.
 *
 * @param hidden elements of a token between layers
 * @param inner elements of a token within the MLP
 * @param epsilon of the norms
 * @param activation of the MLP, by transformers' name
 * @param heads of attention
 */
record PreNormLayers(int hidden, int inner, double epsilon, String activation, AttentionHeads heads) {
    /**
     * Those of one tower's configuration.
     *
     * @param causal whether a token sees only those before it
     * @param activation where the key is absent
     */
    static PreNormLayers of(HfConfig config, boolean causal, String activation, double epsilon) {
        int hidden = config.size("hidden_size");
        int heads = config.size("num_attention_heads");
        int size = config.divided(hidden, "hidden_size", heads, "num_attention_heads");
        return new PreNormLayers(
                hidden,
                config.size("intermediate_size"),
                config.positive(epsilon, "layer_norm_eps"),
                Activations.of(config, "hidden_act", activation),
                causal
                        ? AttentionHeads.causal(heads, size, AttentionHeads.scale(size))
                        : AttentionHeads.bidirectional(heads, size));
    }

    /**
     * Adds {@code count} layers.
     *
     * @param layers module that they are parts of, by their numbers
     * @param mask of attention; null for everything
     */
    String emit(GraphDraft draft, String layers, int count, String x, @Nullable String mask) {
        String y = x;
        for (int i = 0; i < count; i++) {
            y = layer(draft, layers + "." + i, y, mask);
        }
        return y;
    }

    private String layer(GraphDraft draft, String module, String x, @Nullable String mask) {
        String path = GraphDraft.path(module);
        String self = module + ".self_attn";
        String normed = draft.layerNorm(module + ".layer_norm1", x, hidden, epsilon);
        String q = draft.linear(self + ".q_proj", normed, hidden, hidden, true);
        String k = draft.linear(self + ".k_proj", normed, hidden, hidden, true);
        String v = draft.linear(self + ".v_proj", normed, hidden, hidden, true);
        String y = heads.attend(draft, self, q, k, v, mask);
        String middle = draft.add(path + "/residual", x, draft.linear(self + ".out_proj", y, hidden, hidden, true));
        return draft.add(
                path + "/residual",
                middle,
                mlp(draft, module + ".mlp", draft.layerNorm(module + ".layer_norm2", middle, hidden, epsilon)));
    }

    /** Two Linears with the activation between them. */
    String mlp(GraphDraft draft, String module, String x) {
        String wide = draft.linear(module + ".fc1", x, hidden, inner, true);
        String active = Activations.emit(draft, GraphDraft.path(module) + "/activation_fn", activation, wide);
        return draft.linear(module + ".fc2", active, inner, hidden, true);
    }
}
