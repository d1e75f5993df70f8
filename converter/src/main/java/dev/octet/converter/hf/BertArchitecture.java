package dev.octet.converter.hf;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import java.util.List;
import java.util.Optional;
import java.util.regex.Pattern;

/**
 * BERT: LayerNorm behind each sum, learned positions, both directions; bare, with the masked language model's head, or classifying
 * sequences. Source: transformers/models/bert/modeling_bert.py.
 */
final class BertArchitecture implements Architecture {
    private static final String PREFIX = "bert.";
    private static final double EPSILON = 1e-12;
    private static final String MASKED_LM = "BertForMaskedLM";
    private static final String CLASSIFICATION = "BertForSequenceClassification";

    @Override
    public String modelType() {
        return "bert";
    }

    @Override
    public List<String> classes() {
        return List.of("BertModel", MASKED_LM, CLASSIFICATION);
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
        return List.of(PREFIX + "pooler.dense.weight", PREFIX + "pooler.dense.bias");
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
                    candidate(t, MASKED_LM).put("tie_word_embeddings", true),
                    candidate(t, MASKED_LM).put("tie_word_embeddings", false));
        }
        ObjectNode config =
                candidate(t, t.classifies() ? CLASSIFICATION : classes().getFirst());
        if (t.classifies()) {
            Candidate.labels(config, t.outputWidth());
        }
        return List.of(config);
    }

    private ObjectNode candidate(GraphTraits t, String modelClass) {
        return Candidate.of(this, modelClass)
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

    /** What all layers share. */
    private record Sizes(int hidden, int inner, double epsilon, String activation, AttentionHeads heads) {}

    @Override
    public void build(HfConfig config, String modelClass, GraphDraft draft) {
        refuseVariants(config);
        int hidden = config.size("hidden_size");
        int heads = config.size("num_attention_heads");
        int headSize = config.divided(hidden, "hidden_size", heads, "num_attention_heads");
        int layers = config.layers("num_hidden_layers");
        Sizes sizes = new Sizes(
                hidden,
                config.size("intermediate_size"),
                config.positive(EPSILON, "layer_norm_eps"),
                Activations.of(config, "hidden_act", "gelu"),
                AttentionHeads.bidirectional(heads, headSize));
        Tokens tokens = new Tokens(draft);
        String x = embeddings(config, draft, tokens, sizes);
        for (int i = 0; i < layers; i++) {
            x = layer(draft, PREFIX + "encoder.layer." + i, x, sizes, tokens);
        }
        switch (modelClass) {
            case MASKED_LM -> maskedLm(config, draft, x, sizes);
            case CLASSIFICATION -> classification(config, draft, x, sizes);
            default -> {
                draft.output("last_hidden_state", x, Tokens.BATCH, Tokens.SEQUENCE, Dim.of(hidden));
                if (draft.parameters().has(PREFIX + "pooler.dense.weight")) {
                    draft.output("pooler_output", pooled(draft, x, sizes), Tokens.BATCH, Dim.of(hidden));
                }
            }
        }
    }

    private static void refuseVariants(HfConfig config) {
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

    private static String embeddings(HfConfig config, GraphDraft draft, Tokens tokens, Sizes s) {
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

    private static String layer(GraphDraft draft, String module, String x, Sizes s, Tokens tokens) {
        String self = module + ".attention.self";
        String q = draft.linear(self + ".query", x, s.hidden(), s.hidden(), true);
        String k = draft.linear(self + ".key", x, s.hidden(), s.hidden(), true);
        String v = draft.linear(self + ".value", x, s.hidden(), s.hidden(), true);
        String y = s.heads().attend(draft, self, q, k, v, tokens.padding());
        String middle = output(draft, module + ".attention.output", y, x, s.hidden(), s);
        String wide = draft.linear(module + ".intermediate.dense", middle, s.hidden(), s.inner(), true);
        String active = Activations.emit(draft, GraphDraft.path(module) + "/intermediate/act", s.activation(), wide);
        return output(draft, module + ".output", active, middle, s.inner(), s);
    }

    /** A Linear back to the hidden size, the residual, LayerNorm. */
    private static String output(GraphDraft draft, String module, String x, String residual, int in, Sizes s) {
        String dense = draft.linear(module + ".dense", x, in, s.hidden(), true);
        String sum = draft.add(GraphDraft.path(module), dense, residual);
        return draft.layerNorm(module + ".LayerNorm", sum, s.hidden(), s.epsilon());
    }

    private static void maskedLm(HfConfig config, GraphDraft draft, String x, Sizes s) {
        String module = "cls.predictions";
        int vocabulary = config.size("vocab_size");
        String dense = draft.linear(module + ".transform.dense", x, s.hidden(), s.hidden(), true);
        String active = Activations.emit(draft, "/cls/predictions/transform/act", s.activation(), dense);
        String normed = draft.layerNorm(module + ".transform.LayerNorm", active, s.hidden(), s.epsilon());
        String weight = TiedHead.weight(
                draft,
                config,
                config.flag(true, "tie_word_embeddings"),
                module + ".decoder.weight",
                PREFIX + "embeddings.word_embeddings.weight",
                vocabulary,
                s.hidden());
        ignorePooler(draft);
        String bias = draft.stored(bias(config, draft.parameters(), module), vocabulary);
        String logits = draft.linear(module + ".decoder", normed, weight, bias, 1);
        draft.output("logits", logits, Tokens.BATCH, Tokens.SEQUENCE, Dim.of(vocabulary));
    }

    /** The bias is tied as the weight is; files of transformers before 5 have one of both names where nothing is tied. */
    private static String bias(HfConfig config, CheckpointParameters parameters, String module) {
        String own = module + ".decoder.bias";
        String shared = module + ".bias";
        boolean tied = config.flag(true, "tie_word_embeddings");
        String chosen = !tied && (parameters.has(own) || !parameters.has(shared)) ? own : shared;
        parameters.account(chosen.equals(own) ? shared : own);
        return chosen;
    }

    /** Hub files keep the pooler of pretraining, which the masked language model does not have. */
    private static void ignorePooler(GraphDraft draft) {
        draft.parameters().account(PREFIX + "pooler.dense.weight");
        draft.parameters().account(PREFIX + "pooler.dense.bias");
    }

    private static void classification(HfConfig config, GraphDraft draft, String x, Sizes s) {
        int labels = Labels.count(config);
        String logits = draft.linear("classifier", pooled(draft, x, s), s.hidden(), labels, true);
        draft.output("logits", logits, Tokens.BATCH, Dim.of(labels));
    }

    private static String pooled(GraphDraft draft, String x, Sizes s) {
        String path = "/bert/pooler";
        String first = draft.op(
                path + "/Gather", "Gather", List.of(x, draft.longs("zero", Shape.of(), 0)), Attribute.of("axis", 1));
        String dense = draft.linear(PREFIX + "pooler.dense", first, s.hidden(), s.hidden(), true);
        return draft.op(path + "/activation/Tanh", "Tanh", List.of(dense));
    }
}
