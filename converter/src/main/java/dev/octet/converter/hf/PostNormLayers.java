package dev.octet.converter.hf;

import java.util.List;

/**
 * Layers of encoders that normalise behind each sum, as BERT has them: attention that sees all tokens, and an MLP of two Linears; all Linears
 * have biases.
 *
 * @param names of the modules
 * @param hidden elements of a token between layers
 * @param inner elements of a token within the MLP
 * @param epsilon of the norms
 * @param activation of the MLP, by transformers' name
 * @param heads of attention
 */
record PostNormLayers(Names names, int hidden, int inner, double epsilon, String activation, AttentionHeads heads) {
    /**
     * Names of modules, within the layer's unless said otherwise.
     *
     * @param layers in front of a layer's number
     * @param attention what q, k and v are parts of
     * @param queries of the Linear of q; likewise the next two
     * @param attended of the Linear behind attention
     * @param attendedNorm behind the first sum
     * @param wide of the first Linear of the MLP
     * @param narrow of the second
     * @param narrowNorm behind the second sum
     */
    record Names(
            String layers,
            String attention,
            String queries,
            String keys,
            String values,
            String attended,
            String attendedNorm,
            String wide,
            String narrow,
            String narrowNorm) {
        /** BERT and RoBERTa. */
        static final Names BERT = new Names(
                "encoder.layer.",
                "attention.self",
                "query",
                "key",
                "value",
                "attention.output.dense",
                "attention.output.LayerNorm",
                "intermediate.dense",
                "output.dense",
                "output.LayerNorm");

        /** DeBERTa-v2. */
        static final Names DEBERTA = new Names(
                BERT.layers(),
                BERT.attention(),
                "query_proj",
                "key_proj",
                "value_proj",
                BERT.attended(),
                BERT.attendedNorm(),
                BERT.wide(),
                BERT.narrow(),
                BERT.narrowNorm());

        /** DistilBERT. */
        static final Names DISTILBERT = new Names(
                "transformer.layer.",
                "attention",
                "q_lin",
                "k_lin",
                "v_lin",
                "attention.out_lin",
                "sa_layer_norm",
                "ffn.lin1",
                "ffn.lin2",
                "output_layer_norm");
    }

    /** What attention is told besides q, k and v. */
    @FunctionalInterface
    interface Mask {
        /**
         * BOOL where a query looks, or F32 that its scores are added to.
         *
         * @param attention the module
         * @param q [batch, sequence, hidden]
         * @param k likewise
         */
        String of(String attention, String q, String k);
    }

    /** Those of a configuration with BERT's keys. */
    static PostNormLayers bert(HfConfig config, double epsilon) {
        int hidden = config.size("hidden_size");
        int heads = config.size("num_attention_heads");
        int headSize = config.divided(hidden, "hidden_size", heads, "num_attention_heads");
        return new PostNormLayers(
                Names.BERT,
                hidden,
                config.size("intermediate_size"),
                config.positive(epsilon, "layer_norm_eps"),
                Activations.of(config, "hidden_act", "gelu"),
                AttentionHeads.bidirectional(heads, headSize));
    }

    /** Refuses what BERT's keys may ask for and is not computed here. */
    static void refuseVariants(HfConfig config) {
        String positions = config.text("absolute", "position_embedding_type");
        if (!positions.equals("absolute")) {
            throw config.unsupported("position_embedding_type", positions, "absolute");
        }
        for (String key : List.of("is_decoder", "add_cross_attention")) {
            if (config.flag(false, key)) {
                throw config.unsupported(key, "true", "false");
            }
        }
    }

    /**
     * Adds all layers.
     *
     * @param body module that they are part of, with its dot
     */
    String emit(GraphDraft draft, String body, int count, String x, Tokens tokens) {
        String y = x;
        for (int i = 0; i < count; i++) {
            y = layer(draft, body, i, y, (attention, q, k) -> tokens.padding());
        }
        return y;
    }

    /**
     * Adds one layer.
     *
     * @param body module that it is part of, with its dot
     */
    String layer(GraphDraft draft, String body, int index, String x, Mask mask) {
        String layer = body + names.layers() + index + ".";
        String self = layer + names.attention();
        String q = draft.linear(self + "." + names.queries(), x, hidden, hidden, true);
        String k = draft.linear(self + "." + names.keys(), x, hidden, hidden, true);
        String v = draft.linear(self + "." + names.values(), x, hidden, hidden, true);
        String y = heads.attend(draft, self, q, k, v, mask.of(self, q, k));
        String attended = draft.linear(layer + names.attended(), y, hidden, hidden, true);
        String middle = summed(draft, layer + names.attendedNorm(), attended, x);
        String wide = draft.linear(layer + names.wide(), middle, hidden, inner, true);
        String active =
                Activations.emit(draft, GraphDraft.path(parent(layer + names.wide())) + "/act", activation, wide);
        String narrow = draft.linear(layer + names.narrow(), active, inner, hidden, true);
        return summed(draft, layer + names.narrowNorm(), narrow, middle);
    }

    /** The sum with the residual, normalised. */
    private String summed(GraphDraft draft, String norm, String x, String residual) {
        return draft.layerNorm(norm, draft.add(GraphDraft.path(parent(norm)), x, residual), hidden, epsilon);
    }

    private static String parent(String module) {
        return module.substring(0, module.lastIndexOf('.'));
    }
}
