package dev.octet.converter.hf;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import java.util.List;
import java.util.regex.Pattern;

/**
 * GPT-2: LayerNorm before attention and MLP, learned positions, q, k and v from one product, weights [in, out]. Source:
 * transformers/models/gpt2/modeling_gpt2.py.
 */
final class Gpt2Architecture implements Architecture {
    private static final String PREFIX = "transformer.";
    private static final double EPSILON = 1e-5;

    @Override
    public String modelType() {
        return "gpt2";
    }

    @Override
    public List<String> classes() {
        return List.of("GPT2LMHeadModel", "GPT2Model");
    }

    @Override
    public String prefix() {
        return PREFIX;
    }

    /** Masks that files of old versions keep. */
    @Override
    public List<Pattern> ignored() {
        return List.of(Pattern.compile("(^|\\.)h\\.\\d+\\.attn\\.(masked_)?bias$"));
    }

    @Override
    public List<String> unseen() {
        return List.of("resid_pdrop", "embd_pdrop", "attn_pdrop", "initializer_range", "bos_token_id", "eos_token_id");
    }

    @Override
    public List<ObjectNode> candidates(GraphTraits t) {
        if (!t.ofTokens() || t.rmsNorm() || t.positions() == 0 || t.types() > 0) {
            return List.of();
        }
        return t.predictsTokens()
                ? List.of(
                        candidate(t, "GPT2LMHeadModel").put("tie_word_embeddings", true),
                        candidate(t, "GPT2LMHeadModel").put("tie_word_embeddings", false))
                : List.of(candidate(t, "GPT2Model"));
    }

    private ObjectNode candidate(GraphTraits t, String modelClass) {
        ObjectNode config = Candidate.of(this, modelClass)
                .put("vocab_size", t.vocabulary())
                .put("n_positions", t.positions())
                .put("n_embd", t.hidden())
                .put("n_layer", t.layers())
                .put("n_head", t.heads())
                .put("activation_function", t.activation())
                .put("layer_norm_epsilon", t.epsilon());
        return t.inner() == 4 * t.hidden() ? config.putNull("n_inner") : config.put("n_inner", t.inner());
    }

    /** What all layers share. */
    private record Sizes(int hidden, int inner, double epsilon, String activation) {}

    @Override
    public void build(HfConfig config, String modelClass, GraphDraft draft) {
        if (config.flag(false, "add_cross_attention")) {
            throw config.unsupported("add_cross_attention", "true", "false");
        }
        int hidden = config.size("n_embd", "hidden_size");
        int heads = config.size("n_head", "num_attention_heads");
        int headSize = config.divided(hidden, "n_embd", heads, "n_head");
        int vocabulary = config.size("vocab_size");
        int positions = config.size("n_positions", "max_position_embeddings", "n_ctx");
        int layers = config.layers("n_layer", "num_hidden_layers");
        Sizes sizes = new Sizes(
                hidden,
                config.sizeOr(4 * hidden, "n_inner"),
                config.positive(EPSILON, "layer_norm_epsilon"),
                Activations.of(config, "activation_function", "gelu_new"));
        Tokens tokens = new Tokens(draft);
        String rows = draft.embedding(PREFIX + "wte", tokens.ids(), vocabulary, hidden);
        String places = draft.embedding(PREFIX + "wpe", tokens.positions(), positions, hidden);
        String x = draft.add("/transformer", rows, places);
        for (int i = 0; i < layers; i++) {
            float scale = config.flag(true, "scale_attn_weights") ? AttentionHeads.scale(headSize) : 1;
            if (config.flag(false, "scale_attn_by_inverse_layer_idx")) {
                scale /= i + 1;
            }
            x = layer(draft, PREFIX + "h." + i, x, sizes, AttentionHeads.causal(heads, headSize, scale), tokens);
        }
        x = draft.layerNorm(PREFIX + "ln_f", x, hidden, sizes.epsilon());
        if (!modelClass.equals("GPT2LMHeadModel")) {
            draft.output("last_hidden_state", x, Tokens.BATCH, Tokens.SEQUENCE, Dim.of(hidden));
            return;
        }
        boolean tied = config.flag(true, "tie_word_embeddings");
        String weight =
                TiedHead.weight(draft, config, tied, "lm_head.weight", PREFIX + "wte.weight", vocabulary, hidden);
        String logits = draft.linear("lm_head", draft.last(x), weight, null, 1);
        draft.output("logits", logits, Tokens.BATCH, Tokens.SEQUENCE, Dim.of(vocabulary));
    }

    private static String layer(
            GraphDraft draft, String module, String x, Sizes s, AttentionHeads heads, Tokens tokens) {
        String path = GraphDraft.path(module);
        String normed = draft.layerNorm(module + ".ln_1", x, s.hidden(), s.epsilon());
        String qkv = draft.conv1d(module + ".attn.c_attn", normed, s.hidden(), 3 * s.hidden());
        List<String> parts = draft.ops(
                path + "/attn/Split",
                "Split",
                List.of(qkv),
                3,
                Attribute.of("axis", -1),
                Attribute.of("num_outputs", 3));
        String y = heads.attend(draft, module + ".attn", parts.get(0), parts.get(1), parts.get(2), tokens.padding());
        String attended = draft.conv1d(module + ".attn.c_proj", y, s.hidden(), s.hidden());
        String middle = draft.add(path + "/residual", attended, x);
        normed = draft.layerNorm(module + ".ln_2", middle, s.hidden(), s.epsilon());
        String wide = draft.conv1d(module + ".mlp.c_fc", normed, s.hidden(), s.inner());
        String active = Activations.emit(draft, path + "/mlp/act", s.activation(), wide);
        return draft.add(
                path + "/residual", middle, draft.conv1d(module + ".mlp.c_proj", active, s.inner(), s.hidden()));
    }
}
