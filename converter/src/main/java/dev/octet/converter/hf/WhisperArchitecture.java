package dev.octet.converter.hf;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.tensor.DType;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * Whisper: two convolutions over a spectrogram and an encoder, and a decoder that reads what it gives; LayerNorm before each part. Source:
 * transformers/models/whisper/modeling_whisper.py.
 */
final class WhisperArchitecture implements Architecture {
    private static final String PREFIX = "model.";
    private static final String ENCODER = PREFIX + "encoder.";
    private static final String DECODER = PREFIX + "decoder.";
    private static final double EPSILON = 1e-5;

    @Override
    public String modelType() {
        return "whisper";
    }

    @Override
    public List<String> classes() {
        return List.of("WhisperForConditionalGeneration");
    }

    @Override
    public String prefix() {
        return PREFIX;
    }

    @Override
    public List<String> unseen() {
        return List.of("dropout", "attention_dropout", "activation_dropout", "init_std", "decoder_start_token_id");
    }

    @Override
    public void build(HfConfig config, String modelClass, GraphDraft draft) {
        new Build(config, draft).build();
    }

    /** One graph. */
    private static final class Build {
        private final HfConfig config;
        private final GraphDraft draft;
        private final int hidden;
        private final String activation;

        private Build(HfConfig config, GraphDraft draft) {
            this.config = config;
            this.draft = draft;
            this.hidden = config.size("d_model");
            this.activation = Activations.of(config, "activation_function", "gelu");
        }

        private void build() {
            String encoded = encoder();
            String x = decoder(encoded);
            int vocabulary = config.size("vocab_size");
            String weight = TiedHead.weight(
                    draft,
                    config,
                    config.flag(true, "tie_word_embeddings"),
                    "proj_out.weight",
                    DECODER + "embed_tokens.weight",
                    vocabulary,
                    hidden);
            draft.output(
                    "logits",
                    draft.linear("proj_out", x, weight, null, 1),
                    Tokens.BATCH,
                    Tokens.TARGET,
                    Dim.of(vocabulary));
        }

        private String encoder() {
            int bins = config.sizeOr(80, "num_mel_bins");
            int frames = config.sizeOr(1500, "max_source_positions");
            String sound = draft.input("input_features", DType.F32, Tokens.BATCH, Dim.of(bins), Dim.of(2L * frames));
            String x = convolution(ENCODER + "conv1", sound, bins, 1);
            x = convolution(ENCODER + "conv2", x, hidden, 2);
            x = draft.op(
                    "/model/encoder/Transpose", "Transpose", List.of(x), Attribute.of("perm", List.of(0L, 2L, 1L)));
            x = draft.add("/model/encoder", x, draft.widened(ENCODER + "embed_positions.weight", frames, hidden));
            AttentionHeads heads = heads("encoder_attention_heads", false);
            for (int i = 0; i < config.layers("encoder_layers"); i++) {
                String layer = ENCODER + "layers." + i;
                x = attention(layer, "self_attn", x, null, heads);
                x = mlp(layer, x, config.size("encoder_ffn_dim"));
            }
            return draft.layerNorm(ENCODER + "layer_norm", x, hidden, EPSILON);
        }

        /** Three frames wide, behind an activation. */
        private String convolution(String module, String x, int channels, long stride) {
            String y = draft.op(
                    GraphDraft.path(module),
                    "Conv",
                    List.of(
                            x,
                            draft.widened(module + ".weight", hidden, channels, 3),
                            draft.widened(module + ".bias", hidden)),
                    Attribute.of("kernel_shape", List.of(3L)),
                    Attribute.of("pads", List.of(1L, 1L)),
                    Attribute.of("strides", List.of(stride)));
            return draft.gelu(GraphDraft.path(module) + "/gelu", y, "none");
        }

        private String decoder(String encoded) {
            Tokens tokens = Tokens.targets(draft);
            int vocabulary = config.size("vocab_size");
            Optional<Integer> padding = config.padding(vocabulary);
            String words = draft.embedding(DECODER + "embed_tokens", tokens.ids(), vocabulary, hidden, padding);
            if (config.flag(false, "scale_embedding")) {
                words = draft.scaled("/model/decoder", words, "embed_scale", (float) Math.sqrt(hidden));
            }
            String places = draft.embedding(
                    DECODER + "embed_positions",
                    tokens.positions(),
                    config.sizeOr(448, "max_target_positions"),
                    hidden);
            String x = draft.add("/model/decoder", words, places);
            AttentionHeads own = heads("decoder_attention_heads", true);
            AttentionHeads cross = heads("decoder_attention_heads", false);
            for (int i = 0; i < config.layers("decoder_layers"); i++) {
                String layer = DECODER + "layers." + i;
                x = attention(layer, "self_attn", x, null, own);
                x = attention(layer, "encoder_attn", x, encoded, cross);
                x = mlp(layer, x, config.size("decoder_ffn_dim"));
            }
            return draft.layerNorm(DECODER + "layer_norm", x, hidden, EPSILON);
        }

        private AttentionHeads heads(String key, boolean causal) {
            int heads = config.size(key);
            int size = config.divided(hidden, "d_model", heads, key);
            return new AttentionHeads(heads, heads, size, size, AttentionHeads.scale(size), causal, 0);
        }

        /**
         * The sum with attention.
         *
         * @param other what is attended to; null for the normalised tokens themselves
         */
        private String attention(String layer, String name, String x, @Nullable String other, AttentionHeads heads) {
            String module = layer + "." + name;
            String normed = draft.layerNorm(module + "_layer_norm", x, hidden, EPSILON);
            String source = other == null ? normed : other;
            String q = draft.linear(module + ".q_proj", normed, hidden, hidden, true);
            String k = draft.linear(module + ".k_proj", source, hidden, hidden, false);
            String v = draft.linear(module + ".v_proj", source, hidden, hidden, true);
            String y = heads.attend(draft, module, q, k, v, null);
            return draft.add(
                    GraphDraft.path(layer) + "/residual",
                    x,
                    draft.linear(module + ".out_proj", y, hidden, hidden, true));
        }

        private String mlp(String layer, String x, int inner) {
            String normed = draft.layerNorm(layer + ".final_layer_norm", x, hidden, EPSILON);
            String wide = draft.linear(layer + ".fc1", normed, hidden, inner, true);
            String active = Activations.emit(draft, GraphDraft.path(layer) + "/activation_fn", activation, wide);
            return draft.add(
                    GraphDraft.path(layer) + "/residual", x, draft.linear(layer + ".fc2", active, inner, hidden, true));
        }
    }
}
