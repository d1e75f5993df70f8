package dev.octet.converter.hf;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.tensor.DType;
import java.util.List;
import java.util.Optional;
import java.util.regex.Pattern;

/**
 * BERT: LayerNorm behind each sum, learned positions, both directions; bare, with the masked language model's head, classifying
 * sequences or tokens, or answering questions. Source: transformers/models/bert/modeling_bert.py.
 */
final class BertArchitecture implements Architecture {
    private static final String FAMILY = "Bert";
    private static final String PREFIX = "bert.";
    private static final String POOLER = PREFIX + "pooler";
    private static final double EPSILON = 1e-12;

    @Override
    public String modelType() {
        return "bert";
    }

    @Override
    public List<String> classes() {
        return EncoderClass.all(FAMILY);
    }

    @Override
    public String prefix() {
        return PREFIX;
    }

    /** Buffers of old versions; heads of pretraining, which files of the hub keep in addition to those of the class they name. */
    @Override
    public List<Pattern> ignored() {
        return List.of(
                Pattern.compile("(^|\\.)embeddings\\.(position_ids|token_type_ids)$"),
                Pattern.compile("^cls\\.seq_relationship\\."),
                Pattern.compile("^cls\\.predictions\\.decoder\\.bias$"));
    }

    @Override
    public List<String> optional() {
        return List.of(POOLER + ".dense.weight", POOLER + ".dense.bias");
    }

    @Override
    public List<String> unseen() {
        return List.of("hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range", "pad_token_id");
    }

    @Override
    public List<ObjectNode> candidates(GraphTraits t) {
        if (!t.ofTokens() || t.rmsNorm() || t.positions() == 0 || t.types() == 0) {
            return List.of();
        }
        if (t.predictsTokens()) {
            return List.of(
                    candidate(t, EncoderClass.MASKED_LM).put("tie_word_embeddings", true),
                    candidate(t, EncoderClass.MASKED_LM).put("tie_word_embeddings", false));
        }
        ObjectNode config = candidate(t, t.classifies() ? EncoderClass.SEQUENCES : EncoderClass.BARE);
        if (t.classifies()) {
            Candidate.labels(config, t.outputWidth());
        }
        return List.of(config);
    }

    private ObjectNode candidate(GraphTraits t, EncoderClass modelClass) {
        return Candidate.of(this, modelClass.of(FAMILY))
                .put("vocab_size", t.vocabulary())
                .put("type_vocab_size", t.types())
                .put("max_position_embeddings", t.positions())
                .put("hidden_size", t.hidden())
                .put("num_hidden_layers", t.layers())
                .put("num_attention_heads", t.heads())
                .put("intermediate_size", t.inner())
                .put("hidden_act", t.activation())
                .put("layer_norm_eps", t.epsilon());
    }

    @Override
    public void build(HfConfig config, String modelClass, GraphDraft draft) {
        PostNormLayers.refuseVariants(config);
        PostNormLayers layers = PostNormLayers.bert(config, EPSILON);
        int hidden = layers.hidden();
        Tokens tokens = new Tokens(draft);
        String x = embeddings(config, draft, tokens, layers);
        x = layers.emit(draft, PREFIX, config.layers("num_hidden_layers"), x, tokens);
        EncoderClass head = EncoderClass.named(modelClass);
        switch (head) {
            case MASKED_LM -> maskedLm(config, draft, x, layers);
            case SEQUENCES -> {
                String pooled = EncoderHeads.pooled(draft, POOLER, x, hidden);
                EncoderHeads.classes(draft, config, "classifier", pooled, hidden);
            }
            case TOKENS, ANSWERS, BARE -> EncoderHeads.besidePooler(head, draft, config, POOLER, x, hidden);
        }
    }

    private static String embeddings(HfConfig config, GraphDraft draft, Tokens tokens, PostNormLayers s) {
        String module = PREFIX + "embeddings";
        String types = draft.input("token_type_ids", DType.I64, Tokens.BATCH, Tokens.SEQUENCE);
        int vocabulary = config.size("vocab_size");
        String words = draft.embedding(
                module + ".word_embeddings",
                tokens.ids(),
                vocabulary,
                s.hidden(),
                config.json().has("pad_token_id") ? config.padding(vocabulary) : Optional.of(0));
        String kinds = draft.embedding(
                module + ".token_type_embeddings", types, config.sizeOr(2, "type_vocab_size"), s.hidden());
        String places = draft.embedding(
                module + ".position_embeddings",
                tokens.positions(),
                config.sizeOr(512, "max_position_embeddings"),
                s.hidden());
        String path = GraphDraft.path(module);
        String sum = draft.add(path, draft.add(path, words, kinds), places);
        return draft.layerNorm(module + ".LayerNorm", sum, s.hidden(), s.epsilon());
    }

    private static void maskedLm(HfConfig config, GraphDraft draft, String x, PostNormLayers s) {
        String module = "cls.predictions";
        String dense = draft.linear(module + ".transform.dense", x, s.hidden(), s.hidden(), true);
        String active = Activations.emit(draft, "/cls/predictions/transform/act", s.activation(), dense);
        String normed = draft.layerNorm(module + ".transform.LayerNorm", active, s.hidden(), s.epsilon());
        EncoderHeads.ignorePooler(draft, POOLER);
        EncoderHeads.words(
                draft,
                config,
                module + ".decoder",
                EncoderHeads.biasOfWords(config, draft.parameters(), module),
                PREFIX + "embeddings.word_embeddings",
                normed,
                s.hidden());
    }
}
