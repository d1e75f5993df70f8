package dev.octet.converter.hf;

import dev.octet.formats.graph.Dim;
import dev.octet.formats.tensor.Shape;
import java.util.List;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * T5, Flan-T5 and Switch Transformers: an encoder, and a decoder that reads what it gives; RMSNorm before each part, positions as a bias of the scores,
 * which are not scaled. Switch Transformers have {@link SwitchBlock experts} in some layers. Sources: transformers/models/t5/modeling_t5.py,
 * transformers/models/switch_transformers/modeling_switch_transformers.py.
 *
 * @param modelType {@code model_type} in {@code config.json}
 * @param family what the names of its classes begin with
 * @param sparse whether some layers have experts
 */
record T5Architecture(String modelType, String family, boolean sparse) implements Architecture {
    private static final String GENERATION = "ForConditionalGeneration";
    private static final String ENCODER = "EncoderModel";
    private static final String WORDS = "shared";
    /** Far below any score, so that nothing is left of it behind a softmax. */
    private static final float HIDDEN = -1e9f;

    /** Without experts. */
    static final T5Architecture T5 = new T5Architecture("t5", "T5", false);

    /** With experts. */
    static final T5Architecture SWITCH = new T5Architecture("switch_transformers", "SwitchTransformers", true);

    @Override
    public List<String> classes() {
        return List.of(family + GENERATION, family + ENCODER);
    }

    @Override
    public String prefix() {
        return "";
    }

    /** The table under the names of its users; a bias of old files that no one reads. */
    @Override
    public List<Pattern> ignored() {
        return List.of(
                Pattern.compile("^(encoder|decoder)\\.embed_tokens\\.weight$"),
                Pattern.compile(
                        "^decoder\\.block\\.0\\.layer\\.1\\.EncDecAttention\\.relative_attention_bias\\.weight$"));
    }

    @Override
    public List<String> unseen() {
        return List.of("dropout_rate", "initializer_factor", "pad_token_id", "eos_token_id", "decoder_start_token_id");
    }

    @Override
    public void build(HfConfig config, String modelClass, GraphDraft draft) {
        new Build(config, draft, sparse).build(modelClass);
    }

    /** One graph. */
    private static final class Build {
        private final HfConfig config;
        private final GraphDraft draft;
        private final int hidden;
        private final int size;
        private final int heads;
        private final double epsilon;
        private final boolean sparse;

        private Build(HfConfig config, GraphDraft draft, boolean sparse) {
            this.sparse = sparse;
            this.config = config;
            this.draft = draft;
            this.hidden = config.size("d_model");
            this.size = config.size("d_kv");
            this.heads = config.size("num_heads");
            this.epsilon = config.positive(1e-6, "layer_norm_epsilon");
        }

        private void build(String modelClass) {
            Tokens tokens = new Tokens(draft);
            int layers = config.layers("num_layers");
            String encoded = encoder(tokens, layers);
            if (modelClass.endsWith(ENCODER)) {
                EncoderHeads.bare(draft, encoded, hidden);
                return;
            }
            String x = decoder(tokens, encoded, config.sizeOr(layers, "num_decoder_layers"));
            boolean tied = config.flag(true, "tie_word_embeddings");
            if (config.flag(tied, "scale_decoder_outputs")) {
                x = draft.scaled("/decoder", x, "decoder_scale", (float) (1 / Math.sqrt(hidden)));
            }
            int vocabulary = config.size("vocab_size");
            boolean own = !tied && draft.parameters().has("lm_head.weight");
            String weight =
                    TiedHead.weight(draft, config, !own, "lm_head.weight", WORDS + ".weight", vocabulary, hidden);
            draft.output(
                    "logits",
                    draft.linear("lm_head", x, weight, null, 1),
                    Tokens.BATCH,
                    Tokens.TARGET,
                    Dim.of(vocabulary));
        }

        private String encoder(Tokens tokens, int layers) {
            String x = draft.embedding(WORDS, tokens.ids(), config.size("vocab_size"), hidden);
            String mask = draft.op(
                    "/encoder/Where",
                    "Where",
                    List.of(
                            tokens.padding(),
                            bias("encoder", tokens, true),
                            draft.floats("hidden_score", Shape.SCALAR, HIDDEN)));
            for (int i = 0; i < layers; i++) {
                String block = "encoder.block." + i + ".layer.";
                x = attention(block + "0", "SelfAttention", x, null, mask, false);
                x = mlp(block + "1", x, isSparse("num_sparse_encoder_layers", layers, i), false);
            }
            return draft.rmsNorm("encoder.final_layer_norm", x, hidden, epsilon);
        }

        private String decoder(Tokens source, String encoded, int layers) {
            Tokens targets = Tokens.targets(draft);
            String x = draft.embedding(WORDS, targets.ids(), config.size("vocab_size"), hidden);
            String bias = bias("decoder", targets, false);
            for (int i = 0; i < layers; i++) {
                String block = "decoder.block." + i + ".layer.";
                x = attention(block + "0", "SelfAttention", x, null, bias, true);
                x = attention(block + "1", "EncDecAttention", x, encoded, source.padding(), false);
                x = mlp(block + "2", x, isSparse("num_sparse_decoder_layers", layers, i), true);
            }
            return draft.rmsNorm("decoder.final_layer_norm", x, hidden, epsilon);
        }

        private String bias(String stack, Tokens tokens, boolean bothWays) {
            RelativeBias bias = new RelativeBias(
                    config.sizeOr(32, "relative_attention_num_buckets"),
                    config.sizeOr(128, "relative_attention_max_distance"),
                    bothWays);
            if (bias.buckets() < 4 || bias.farthest() <= bias.buckets() / (bothWays ? 4 : 2)) {
                throw config.malformed("relative_attention_max_distance " + bias.farthest()
                        + " is within the exact ones of relative_attention_num_buckets " + bias.buckets());
            }
            return bias.emit(draft, stack + ".block.0.layer.0.SelfAttention.relative_attention_bias", tokens, heads);
        }

        /**
         * The sum with attention.
         *
         * @param other what is attended to; null for the normalised tokens themselves
         */
        private String attention(
                String layer, String name, String x, @Nullable String other, String mask, boolean causal) {
            String module = layer + "." + name;
            int width = heads * size;
            String normed = draft.rmsNorm(layer + ".layer_norm", x, hidden, epsilon);
            String source = other == null ? normed : other;
            String q = draft.linear(module + ".q", normed, hidden, width, false);
            String k = draft.linear(module + ".k", source, hidden, width, false);
            String v = draft.linear(module + ".v", source, hidden, width, false);
            String y = new AttentionHeads(heads, heads, size, size, 1, causal, 0).attend(draft, module, q, k, v, mask);
            return draft.add(GraphDraft.path(layer), x, draft.linear(module + ".o", y, width, hidden, false));
        }

        /** Whether a layer has experts: the second of each so many. */
        private boolean isSparse(String key, int layers, int layer) {
            int count = config.count(key).orElse(3);
            int step = count == 0 ? layers : layers / count;
            return sparse && step > 0 && (step == 1 || layer % step == 1);
        }

        /** @param targets whether the tokens are the decoder's, of which no mask says which are padding */
        private String mlp(String layer, String x, boolean experts, boolean targets) {
            String normed = draft.rmsNorm(layer + ".layer_norm", x, hidden, epsilon);
            if (experts) {
                String y = new SwitchBlock(config, draft, hidden, targets).emit(layer + ".mlp", normed);
                return draft.add(GraphDraft.path(layer), x, y);
            }
            int inner = config.size("d_ff");
            if (sparse) {
                String y = new PlainMlp(hidden, inner, Activations.of(config, "dense_act_fn", "relu"))
                        .emit(draft, layer + ".mlp", normed);
                return draft.add(GraphDraft.path(layer), x, y);
            }
            String module = layer + ".DenseReluDense";
            String named = config.text("relu", "feed_forward_proj");
            boolean gated = named.startsWith("gated-");
            String activation = named.equals("gated-gelu")
                    ? "gelu_new"
                    : Activations.known(config, "feed_forward_proj", gated ? named.substring(6) : named);
            String y;
            if (gated) {
                y = new GatedMlp(hidden, inner, activation, false).emit(draft, module, "wi_0", "wi_1", "wo", normed);
            } else {
                y = new PlainMlp(hidden, inner, activation).emit(draft, module, normed);
            }
            return draft.add(GraphDraft.path(layer), x, y);
        }
    }
}
