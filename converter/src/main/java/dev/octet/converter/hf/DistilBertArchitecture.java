package dev.octet.converter.hf;

import java.util.List;
import java.util.Optional;
import java.util.regex.Pattern;

/**
 * DistilBERT: BERT's layers by other names, without token types; bare, with the masked language model's head, classifying sequences or
 * tokens, or answering questions. Source: transformers/models/distilbert/modeling_distilbert.py.
 */
final class DistilBertArchitecture implements Architecture {
    private static final String PREFIX = "distilbert.";
    private static final String EMBEDDINGS = PREFIX + "embeddings";
    private static final double EPSILON = 1e-12;

    @Override
    public String modelType() {
        return "distilbert";
    }

    @Override
    public List<String> classes() {
        return EncoderClass.all("DistilBert");
    }

    @Override
    public String prefix() {
        return PREFIX;
    }

    /** Buffers of old versions; the head of pretraining, which files of the hub keep. */
    @Override
    public List<Pattern> ignored() {
        return List.of(
                Pattern.compile("(^|\\.)embeddings\\.position_ids$"),
                Pattern.compile("^vocab_(transform|layer_norm|projector)\\."));
    }

    @Override
    public List<String> unseen() {
        return List.of("dropout", "attention_dropout", "seq_classif_dropout", "initializer_range", "pad_token_id");
    }

    @Override
    public void build(HfConfig config, String modelClass, GraphDraft draft) {
        int hidden = config.size("dim", "hidden_size");
        int heads = config.size("n_heads", "num_attention_heads");
        int headSize = config.divided(hidden, "dim", heads, "n_heads");
        PostNormLayers layers = new PostNormLayers(
                PostNormLayers.Names.DISTILBERT,
                hidden,
                config.sizeOr(4 * hidden, "hidden_dim"),
                EPSILON,
                Activations.of(config, "activation", "gelu"),
                AttentionHeads.bidirectional(heads, headSize));
        Tokens tokens = new Tokens(draft);
        String x = embeddings(config, draft, tokens, hidden);
        x = layers.emit(draft, PREFIX, config.layers("n_layers", "num_hidden_layers"), x, tokens);
        switch (EncoderClass.named(modelClass)) {
            case MASKED_LM -> maskedLm(config, draft, x, layers);
            case SEQUENCES -> {
                String first = EncoderHeads.first(draft, "", x);
                String dense = draft.linear("pre_classifier", first, hidden, hidden, true);
                EncoderHeads.classes(draft, config, "classifier", draft.op("/Relu", "Relu", List.of(dense)), hidden);
            }
            case TOKENS -> EncoderHeads.classesOfTokens(draft, config, "classifier", x, hidden);
            case ANSWERS -> EncoderHeads.answers(draft, config, "qa_outputs", x, hidden);
            case BARE -> EncoderHeads.bare(draft, x, hidden);
        }
    }

    private static String embeddings(HfConfig config, GraphDraft draft, Tokens tokens, int hidden) {
        int vocabulary = config.size("vocab_size");
        String words = draft.embedding(
                EMBEDDINGS + ".word_embeddings",
                tokens.ids(),
                vocabulary,
                hidden,
                config.json().has("pad_token_id") ? config.padding(vocabulary) : Optional.of(0));
        String places = draft.embedding(
                EMBEDDINGS + ".position_embeddings",
                tokens.positions(),
                config.sizeOr(512, "max_position_embeddings"),
                hidden);
        String sum = draft.add(GraphDraft.path(EMBEDDINGS), words, places);
        return draft.layerNorm(EMBEDDINGS + ".LayerNorm", sum, hidden, EPSILON);
    }

    private static void maskedLm(HfConfig config, GraphDraft draft, String x, PostNormLayers s) {
        String dense = draft.linear("vocab_transform", x, s.hidden(), s.hidden(), true);
        String active = Activations.emit(draft, "/activation", s.activation(), dense);
        String normed = draft.layerNorm("vocab_layer_norm", active, s.hidden(), EPSILON);
        EncoderHeads.words(
                draft,
                config,
                "vocab_projector",
                "vocab_projector.bias",
                EMBEDDINGS + ".word_embeddings",
                normed,
                s.hidden());
    }
}
