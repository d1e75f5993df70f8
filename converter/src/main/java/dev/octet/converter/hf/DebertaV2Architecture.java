package dev.octet.converter.hf;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import java.util.List;
import java.util.Optional;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * DeBERTa-v2 and v3: BERT's layers, whose scores of attention know distances ({@link DisentangledScores}), and in the largest a convolution beside the
 * first of them; bare, with the masked language model's head, classifying sequences or tokens, or answering questions. Source:
 * transformers/models/deberta_v2/modeling_deberta_v2.py.
 */
final class DebertaV2Architecture implements Architecture {
    private static final String PREFIX = "deberta.";
    private static final String EMBEDDINGS = PREFIX + "embeddings";
    private static final String ENCODER = PREFIX + "encoder";
    private static final double EPSILON = 1e-7;

    @Override
    public String modelType() {
        return "deberta-v2";
    }

    @Override
    public List<String> classes() {
        return EncoderClass.all("DebertaV2");
    }

    @Override
    public String prefix() {
        return PREFIX;
    }

    /** Buffers of old versions, positions of models that add none, and heads of pretraining, which files of the hub keep. */
    @Override
    public List<Pattern> ignored() {
        return List.of(
                Pattern.compile("(^|\\.)embeddings\\.position_(ids|embeddings)"),
                Pattern.compile("^(lm_predictions|mask_predictions|cls)\\."));
    }

    @Override
    public List<String> unseen() {
        return List.of(
                "hidden_dropout_prob",
                "attention_probs_dropout_prob",
                "pooler_dropout",
                "initializer_range",
                "pad_token_id");
    }

    @Override
    public void build(HfConfig config, String modelClass, GraphDraft draft) {
        new Build(config, draft).build(modelClass);
    }

    /** One graph. */
    private static final class Build {
        private final HfConfig config;
        private final GraphDraft draft;
        private final Tokens tokens;
        private final PostNormLayers layers;
        private final int hidden;
        /** Elements of a token in its table. */
        private final int narrow;

        private final DisentangledScores.@Nullable Settings positions;
        private @Nullable String column;

        private Build(HfConfig config, GraphDraft draft) {
            this.config = config;
            this.draft = draft;
            this.tokens = new Tokens(draft);
            PostNormLayers.refuseVariants(config);
            this.positions = config.flag(false, "relative_attention") ? DisentangledScores.Settings.of(config) : null;
            this.layers = layers(config);
            this.hidden = layers.hidden();
            this.narrow = config.sizeOr(hidden, "embedding_size");
        }

        private static PostNormLayers layers(HfConfig config) {
            int hidden = config.size("hidden_size");
            int count = config.size("num_attention_heads");
            int size = config.divided(hidden, "hidden_size", count, "num_attention_heads");
            int given = config.sizeOr(size, "attention_head_size");
            if (given != size) {
                throw config.unsupported("attention_head_size", Integer.toString(given), Integer.toString(size));
            }
            float scale = DisentangledScores.Settings.scale(config, size);
            return new PostNormLayers(
                    PostNormLayers.Names.DEBERTA,
                    hidden,
                    config.size("intermediate_size"),
                    config.positive(EPSILON, "layer_norm_eps"),
                    Activations.of(config, "hidden_act", "gelu"),
                    new AttentionHeads(count, count, size, size, scale, false, 0));
        }

        private void build(String modelClass) {
            String embedded = embeddings();
            PostNormLayers.Mask mask = positions == null
                    ? (attention, q, k) -> tokens.padding()
                    : new DisentangledScores(positions, config, draft, tokens, ENCODER, layers);
            String x = embedded;
            for (int i = 0; i < config.layers("num_hidden_layers"); i++) {
                x = layers.layer(draft, PREFIX, i, x, mask);
                if (i == 0 && config.count("conv_kernel_size").orElse(0) > 0) {
                    x = convolved(embedded, x);
                }
            }
            switch (EncoderClass.named(modelClass)) {
                case MASKED_LM -> words(x);
                case SEQUENCES -> EncoderHeads.classes(draft, config, "classifier", pooled(x), hidden);
                case TOKENS -> EncoderHeads.classesOfTokens(draft, config, "classifier", x, hidden);
                case ANSWERS -> EncoderHeads.answers(draft, config, "qa_outputs", x, hidden);
                case BARE -> EncoderHeads.bare(draft, x, hidden);
            }
        }

        private String embeddings() {
            String path = GraphDraft.path(EMBEDDINGS);
            int vocabulary = config.size("vocab_size");
            Optional<Integer> padding = config.json().has("pad_token_id") ? config.padding(vocabulary) : Optional.of(0);
            String x = draft.embedding(EMBEDDINGS + ".word_embeddings", tokens.ids(), vocabulary, narrow, padding);
            if (config.flag(true, "position_biased_input")) {
                int places = config.sizeOr(512, "max_position_embeddings");
                String own = draft.embedding(EMBEDDINGS + ".position_embeddings", tokens.positions(), places, narrow);
                x = draft.add(path, x, own);
            }
            int types = config.count("type_vocab_size").orElse(0);
            if (types > 0) {
                String given = draft.input("token_type_ids", DType.I64, Tokens.BATCH, Tokens.SEQUENCE);
                x = draft.add(path, x, draft.embedding(EMBEDDINGS + ".token_type_embeddings", given, types, narrow));
            }
            if (narrow != hidden) {
                x = draft.linear(EMBEDDINGS + ".embed_proj", x, narrow, hidden, false);
            }
            return unpadded(path, draft.layerNorm(EMBEDDINGS + ".LayerNorm", x, hidden, layers.epsilon()));
        }

        /** 0 where a token is padding. */
        private String unpadded(String path, String x) {
            if (column == null) {
                String number = draft.op(
                        "/attention_mask/Cast_number",
                        "Cast",
                        List.of(tokens.mask()),
                        Attribute.of("to", DType.F32.onnxId()));
                column = draft.op(
                        "/attention_mask/Unsqueeze_number",
                        "Unsqueeze",
                        List.of(number, draft.longs("axes_2", Shape.of(1), 2)));
            }
            return draft.op(path + "/Mul_mask", "Mul", List.of(x, column));
        }

        /** What the first layer gives and a convolution over what it read, normalised. */
        private String convolved(String read, String given) {
            String module = ENCODER + ".conv";
            String path = GraphDraft.path(module);
            int kernel = config.size("conv_kernel_size");
            int groups = config.sizeOr(1, "conv_groups");
            if (kernel % 2 == 0) {
                throw config.unsupported("conv_kernel_size", Integer.toString(kernel), "odd numbers");
            }
            int channels = config.divided(hidden, "hidden_size", groups, "conv_groups");
            String y = draft.op(
                    path + "/conv",
                    "Conv",
                    List.of(
                            turned(path, read),
                            draft.widened(module + ".conv.weight", hidden, channels, kernel),
                            draft.widened(module + ".conv.bias", hidden)),
                    Attribute.of("kernel_shape", List.of((long) kernel)),
                    Attribute.of("pads", List.of((kernel - 1L) / 2, (kernel - 1L) / 2)),
                    Attribute.of("group", groups));
            String kept = unpadded(path, turned(path, y));
            String active = Activations.emit(draft, path + "/act", Activations.of(config, "conv_act", "tanh"), kept);
            String sum = draft.add(path, given, active);
            return unpadded(path, draft.layerNorm(module + ".LayerNorm", sum, hidden, layers.epsilon()));
        }

        private String turned(String path, String x) {
            return draft.op(path + "/Transpose", "Transpose", List.of(x), Attribute.of("perm", List.of(0L, 2L, 1L)));
        }

        /** [batch, hidden] of the first token. */
        private String pooled(String x) {
            int width = config.sizeOr(hidden, "pooler_hidden_size");
            if (width != hidden) {
                throw config.unsupported("pooler_hidden_size", Integer.toString(width), Integer.toString(hidden));
            }
            String dense = draft.linear("pooler.dense", EncoderHeads.first(draft, "/pooler", x), hidden, hidden, true);
            return Activations.emit(draft, "/pooler/act", Activations.of(config, "pooler_hidden_act", "gelu"), dense);
        }

        /** With {@code legacy} as BERT's; otherwise the head that its authors trained. */
        private void words(String x) {
            boolean legacy = config.flag(true, "legacy");
            String module = legacy ? "cls.predictions" : "lm_predictions.lm_head";
            String transform = legacy ? module + ".transform" : module;
            if (!legacy && narrow != hidden) {
                throw config.unsupported("embedding_size", Integer.toString(narrow), Integer.toString(hidden));
            }
            String dense = draft.linear(transform + ".dense", x, hidden, narrow, true);
            String active = Activations.emit(draft, GraphDraft.path(transform) + "/act", layers.activation(), dense);
            String normed = draft.layerNorm(transform + ".LayerNorm", active, narrow, layers.epsilon());
            String table = EMBEDDINGS + ".word_embeddings";
            if (legacy) {
                String bias = EncoderHeads.biasOfWords(config, draft.parameters(), module);
                EncoderHeads.words(draft, config, module + ".decoder", bias, table, normed, narrow);
            } else {
                String weight = draft.stored(table + ".weight", config.size("vocab_size"), hidden);
                EncoderHeads.words(draft, config, module, module + ".bias", weight, normed);
            }
        }
    }
}
