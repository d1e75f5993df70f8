package dev.octet.converter.hf;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import java.util.List;
import java.util.Optional;
import java.util.regex.Pattern;

/**
 * RoBERTa and XLM-RoBERTa: BERT's layers, positions counted from the tokens that are no padding; bare, with the masked language model's head,
 * classifying sequences or tokens, or answering questions. Source: transformers/models/roberta/modeling_roberta.py.
 *
 * @param modelType {@code model_type} in {@code config.json}
 * @param family what the names of its classes begin with
 */
record RobertaArchitecture(String modelType, String family) implements Architecture {
    private static final String PREFIX = "roberta.";
    private static final String EMBEDDINGS = PREFIX + "embeddings";
    private static final String POOLER = PREFIX + "pooler";
    private static final double EPSILON = 1e-12;
    private static final int PADDING = 1;

    @Override
    public List<String> classes() {
        return EncoderClass.all(family);
    }

    @Override
    public String prefix() {
        return PREFIX;
    }

    /** Buffers of old versions; the bias of the head, which its files have twice. */
    @Override
    public List<Pattern> ignored() {
        return List.of(
                Pattern.compile("(^|\\.)embeddings\\.(position_ids|token_type_ids)$"),
                Pattern.compile("^lm_head\\.decoder\\.bias$"));
    }

    @Override
    public List<String> optional() {
        return List.of(POOLER + ".dense.weight", POOLER + ".dense.bias");
    }

    @Override
    public List<String> unseen() {
        return List.of("hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range");
    }

    @Override
    public List<ObjectNode> candidates(GraphTraits t) {
        return List.of(); // positions that are counted look like no positions
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
                EncoderHeads.ignorePooler(draft, POOLER);
                String pooled = EncoderHeads.pooled(draft, "classifier", x, hidden);
                EncoderHeads.classes(draft, config, "classifier.out_proj", pooled, hidden);
            }
            case TOKENS, ANSWERS, BARE -> EncoderHeads.besidePooler(head, draft, config, POOLER, x, hidden);
        }
    }

    /** Token types are an input only where there are several. */
    private static String embeddings(HfConfig config, GraphDraft draft, Tokens tokens, PostNormLayers s) {
        int vocabulary = config.size("vocab_size");
        int places = config.sizeOr(512, "max_position_embeddings");
        int padding = config.json().has("pad_token_id") ? padding(config, Math.min(vocabulary, places)) : PADDING;
        String words = draft.embedding(
                EMBEDDINGS + ".word_embeddings", tokens.ids(), vocabulary, s.hidden(), Optional.of(padding));
        int types = config.sizeOr(2, "type_vocab_size");
        String type = types == 1
                ? draft.longs("zero", Shape.of(), 0)
                : draft.input("token_type_ids", DType.I64, Tokens.BATCH, Tokens.SEQUENCE);
        String kinds = draft.embedding(EMBEDDINGS + ".token_type_embeddings", type, types, s.hidden());
        String positions = draft.embedding(
                EMBEDDINGS + ".position_embeddings",
                tokens.countedPositions(padding),
                places,
                s.hidden(),
                Optional.of(padding));
        String path = GraphDraft.path(EMBEDDINGS);
        String sum = draft.add(path, draft.add(path, words, kinds), positions);
        return draft.layerNorm(EMBEDDINGS + ".LayerNorm", sum, s.hidden(), s.epsilon());
    }

    private static int padding(HfConfig config, int rows) {
        return config.padding(rows)
                .orElseThrow(() -> config.unsupported("pad_token_id", "null", "a number, from which positions count"));
    }

    private static void maskedLm(HfConfig config, GraphDraft draft, String x, PostNormLayers s) {
        String dense = draft.linear("lm_head.dense", x, s.hidden(), s.hidden(), true);
        String active = draft.gelu("/lm_head/gelu", dense, "none");
        String normed = draft.layerNorm("lm_head.layer_norm", active, s.hidden(), s.epsilon());
        EncoderHeads.ignorePooler(draft, POOLER);
        EncoderHeads.words(
                draft, config, "lm_head.decoder", "lm_head.bias", EMBEDDINGS + ".word_embeddings", normed, s.hidden());
    }
}
