package dev.octet.converter.hf;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.tensor.Shape;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.IntFunction;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * The decoder that Llama, Mistral, Qwen2 and Qwen3 share: RMSNorm before attention and before a gated MLP, rotary positions, grouped heads.
 * Source: transformers/models/llama/modeling_llama.py.
 *
 * @param headSize elements of a head
 * @param qkvBias whether q, k and v have biases
 * @param outBias whether the output of attention has one
 * @param mlpBias whether the three Linears of the MLP have them
 * @param headNorms whether q and k are normalised head by head before they are turned (Qwen3)
 * @param window positions that a layer sees, by its number; empty for all
 */
record RotaryDecoder(
        int headSize,
        boolean qkvBias,
        boolean outBias,
        boolean mlpBias,
        boolean headNorms,
        IntFunction<Optional<Integer>> window) {
    static final String PREFIX = "model.";

    /** Frequencies that files of old versions keep; they follow from the configuration. */
    static final List<Pattern> IGNORED = List.of(Pattern.compile("\\.rotary_emb\\.inv_freq$"));

    private static final double EPSILON = 1e-6;

    /** {@code head_dim}, or hidden size by heads. */
    static int headSize(HfConfig config) {
        return config.optionalSize("head_dim")
                .orElseGet(() -> config.divided(
                        config.size("hidden_size"),
                        "hidden_size",
                        config.size("num_attention_heads"),
                        "num_attention_heads"));
    }

    /** {@code sliding_window}: none where it is {@code null}, 4096 where the key is absent (MistralConfig, Qwen2Config, Qwen3Config). */
    static Optional<Integer> window(HfConfig config) {
        return config.json().has("sliding_window") ? config.optionalSize("sliding_window") : Optional.of(4096);
    }

    /**
     * Windows of Qwen2 and Qwen3: by {@code layer_types}, or from {@code max_window_layers} on, 0 for all of them; none unless
     * {@code use_sliding_window}. Defaults are those of Qwen2Config and Qwen3Config.
     */
    static IntFunction<Optional<Integer>> qwenWindow(HfConfig config) {
        Optional<Integer> window = config.flag(false, "use_sliding_window") ? window(config) : Optional.empty();
        List<String> types = config.texts("layer_types");
        int from = config.count("max_window_layers").orElse(28);
        if (!types.isEmpty() && types.size() != config.layers("num_hidden_layers")) {
            throw config.malformed("layer_types names " + types.size() + " layers, num_hidden_layers is "
                    + config.layers("num_hidden_layers"));
        }
        for (String type : types) {
            if (!type.equals("full_attention") && !type.equals("sliding_attention")) {
                throw config.unsupported("layer_types", type, "full_attention, sliding_attention");
            }
        }
        return layer -> types.isEmpty()
                ? window.filter(w -> layer >= from)
                : window.filter(w -> types.get(layer).equals("sliding_attention"));
    }

    /** See {@link Architecture#unseen}. */
    static final List<String> UNSEEN = List.of(
            "max_position_embeddings", "attention_dropout", "initializer_range", "bos_token_id", "eos_token_id");

    /**
     * Candidates with the keys that all these architectures share; none where the traits are not of such a decoder.
     *
     * @param architecture whose classes are {@code ...ForCausalLM} and {@code ...Model}
     */
    static List<ObjectNode> candidates(Architecture architecture, GraphTraits t) {
        Optional<ObjectNode> rope = RotaryAngles.parameters(t.frequencies(), t.headSize());
        if (!t.ofTokens() || !t.rmsNorm() || rope.isEmpty()) {
            return List.of();
        }
        List<ObjectNode> all = new ArrayList<>();
        for (boolean tied : t.predictsTokens() ? new boolean[] {true, false} : new boolean[] {false}) {
            ObjectNode config = Candidate.of(
                            architecture, architecture.classes().get(t.predictsTokens() ? 0 : 1))
                    .put("vocab_size", t.vocabulary())
                    .put("hidden_size", t.hidden())
                    .put("num_hidden_layers", t.layers())
                    .put("num_attention_heads", t.heads())
                    .put("num_key_value_heads", t.keyHeads())
                    .put("head_dim", t.headSize())
                    .put("intermediate_size", t.inner())
                    .put("hidden_act", t.activation())
                    .put("rms_norm_eps", t.epsilon())
                    .put("tie_word_embeddings", tied);
            config.set("rope_parameters", rope.get());
            all.add(config);
        }
        return all;
    }

    /** What all layers share. */
    private record Sizes(int hidden, int inner, double epsilon, String activation, AttentionHeads heads) {}

    /** Adds the model; {@code causalLm} with its output layer. */
    void build(HfConfig config, boolean causalLm, GraphDraft draft) {
        int hidden = config.size("hidden_size");
        int vocabulary = config.size("vocab_size");
        int heads = config.size("num_attention_heads");
        int keyHeads = config.sizeOr(heads, "num_key_value_heads");
        config.divided(heads, "num_attention_heads", keyHeads, "num_key_value_heads");
        int layers = config.layers("num_hidden_layers");
        Sizes sizes = new Sizes(
                hidden,
                config.size("intermediate_size"),
                config.positive(EPSILON, "rms_norm_eps"),
                Activations.of(config, "hidden_act", "silu"),
                new AttentionHeads(heads, keyHeads, AttentionHeads.scale(headSize), true));
        RotaryAngles angles = RotaryAngles.of(config, headSize);
        Tokens tokens = new Tokens(draft);
        String x =
                draft.embedding(PREFIX + "embed_tokens", tokens.ids(), vocabulary, hidden, config.padding(vocabulary));
        RotaryAngles.Tables tables = angles.tables(draft, tokens);
        int longest = config.sizeOr(Integer.MAX_VALUE, "max_position_embeddings");
        for (int i = 0; i < layers; i++) {
            String mask =
                    window.apply(i).filter(w -> w < longest).map(tokens::window).orElseGet(tokens::padding);
            x = layer(draft, PREFIX + "layers." + i, x, sizes, tables, mask);
        }
        x = draft.rmsNorm(PREFIX + "norm", x, hidden, sizes.epsilon());
        if (!causalLm) {
            draft.output("last_hidden_state", x, Tokens.BATCH, Tokens.SEQUENCE, Dim.of(hidden));
            return;
        }
        boolean tied = config.flag(false, "tie_word_embeddings");
        String weight = TiedHead.weight(
                draft, config, tied, "lm_head.weight", PREFIX + "embed_tokens.weight", vocabulary, hidden);
        String logits = draft.linear("lm_head", x, weight, null, 1);
        draft.output("logits", logits, Tokens.BATCH, Tokens.SEQUENCE, Dim.of(vocabulary));
    }

    private String layer(
            GraphDraft draft, String module, String x, Sizes s, RotaryAngles.Tables tables, @Nullable String mask) {
        String path = GraphDraft.path(module);
        String normed = draft.rmsNorm(module + ".input_layernorm", x, s.hidden(), s.epsilon());
        String attended = attention(draft, module + ".self_attn", normed, s, tables, mask);
        String middle = draft.add(path + "/residual", x, attended);
        normed = draft.rmsNorm(module + ".post_attention_layernorm", middle, s.hidden(), s.epsilon());
        return draft.add(path + "/residual", middle, mlp(draft, module + ".mlp", normed, s));
    }

    private String attention(
            GraphDraft draft, String module, String x, Sizes s, RotaryAngles.Tables tables, @Nullable String mask) {
        int queryWidth = s.heads().heads() * headSize;
        int keyWidth = s.heads().keyHeads() * headSize;
        String q = draft.linear(module + ".q_proj", x, s.hidden(), queryWidth, qkvBias);
        String k = draft.linear(module + ".k_proj", x, s.hidden(), keyWidth, qkvBias);
        String v = draft.linear(module + ".v_proj", x, s.hidden(), keyWidth, qkvBias);
        if (headNorms) {
            q = headNorm(draft, module + ".q_norm", q, s.heads().heads(), s.epsilon());
            k = headNorm(draft, module + ".k_norm", k, s.heads().keyHeads(), s.epsilon());
        }
        String path = GraphDraft.path(module);
        q = tables.turn(draft, path + "/q_rotary", q, s.heads().heads());
        k = tables.turn(draft, path + "/k_rotary", k, s.heads().keyHeads());
        String y = s.heads().attend(draft, module, q, k, v, mask);
        return draft.linear(module + ".o_proj", y, queryWidth, s.hidden(), outBias);
    }

    private String headNorm(GraphDraft draft, String module, String x, int heads, double epsilon) {
        String path = GraphDraft.path(module);
        String split = draft.op(
                path + "/Reshape",
                "Reshape",
                List.of(x, draft.longs("heads_" + heads + "_of_" + headSize, Shape.of(4), 0, 0, heads, headSize)));
        String normed = draft.rmsNorm(module, split, headSize, epsilon);
        long width = (long) heads * headSize;
        return draft.op(
                path + "/Reshape_joined",
                "Reshape",
                List.of(normed, draft.longs("joined_" + width, Shape.of(3), 0, 0, width)));
    }

    private String mlp(GraphDraft draft, String module, String x, Sizes s) {
        String gate = draft.linear(module + ".gate_proj", x, s.hidden(), s.inner(), mlpBias);
        String up = draft.linear(module + ".up_proj", x, s.hidden(), s.inner(), mlpBias);
        String path = GraphDraft.path(module);
        String active = Activations.emit(draft, path + "/act_fn", s.activation(), gate);
        String gated = draft.op(path + "/Mul", "Mul", List.of(active, up));
        return draft.linear(module + ".down_proj", gated, s.inner(), s.hidden(), mlpBias);
    }
}
