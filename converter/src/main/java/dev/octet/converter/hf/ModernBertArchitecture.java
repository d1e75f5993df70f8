package dev.octet.converter.hf;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import java.util.List;
import java.util.Optional;
import java.util.function.IntPredicate;
import java.util.regex.Pattern;

/**
 * ModernBERT: norms before attention and MLP, rotary positions, windows to both sides in most layers, gated Gelu; bare, with the masked
 * language model's head, classifying sequences or tokens, or answering questions. Source: transformers/models/modernbert/modeling_modernbert.py.
 */
final class ModernBertArchitecture implements Architecture {
    private static final String PREFIX = "model.";
    private static final String EMBEDDINGS = PREFIX + "embeddings";
    private static final int PADDING = 50_283;

    @Override
    public String modelType() {
        return "modernbert";
    }

    @Override
    public List<String> classes() {
        return EncoderClass.all("ModernBert");
    }

    @Override
    public String prefix() {
        return PREFIX;
    }

    /** The head of pretraining, which files of the hub keep. */
    @Override
    public List<Pattern> ignored() {
        return List.of(Pattern.compile("^decoder\\."));
    }

    @Override
    public void build(HfConfig config, String modelClass, GraphDraft draft) {
        new Build(config, draft).build(modelClass);
    }

    /** One graph. */
    private static final class Build {
        private final HfConfig config;
        private final GraphDraft draft;
        private final int hidden;
        private final int headSize;
        private final AttentionHeads heads;
        private final double epsilon;

        private Build(HfConfig config, GraphDraft draft) {
            this.config = config;
            this.draft = draft;
            this.hidden = config.size("hidden_size");
            int count = config.size("num_attention_heads");
            this.headSize = config.divided(hidden, "hidden_size", count, "num_attention_heads");
            this.heads = AttentionHeads.bidirectional(count, headSize);
            this.epsilon = config.positive(1e-5, "norm_eps");
        }

        private void build(String modelClass) {
            Tokens tokens = new Tokens(draft);
            int vocabulary = config.size("vocab_size");
            Optional<Integer> padding = config.json().has("pad_token_id")
                    ? config.padding(vocabulary)
                    : Optional.of(PADDING).filter(p -> p < vocabulary);
            String words = draft.embedding(EMBEDDINGS + ".tok_embeddings", tokens.ids(), vocabulary, hidden, padding);
            String x = norm(EMBEDDINGS + ".norm", words);
            RotaryAngles.Tables global = tables(tokens, "full_attention", 160_000, "global_rope_theta", "rotary_emb");
            RotaryAngles.Tables local =
                    tables(tokens, "sliding_attention", 10_000, "local_rope_theta", "rotary_emb_local");
            IntPredicate isLocal = local();
            int distance = config.sizeOr(128, "local_attention") / 2;
            for (int i = 0; i < config.layers("num_hidden_layers"); i++) {
                String mask = isLocal.test(i) ? tokens.around(distance) : tokens.padding();
                x = layer(i, x, isLocal.test(i) ? local : global, mask);
            }
            x = norm(PREFIX + "final_norm", x);
            switch (EncoderClass.named(modelClass)) {
                case MASKED_LM ->
                    EncoderHeads.words(
                            draft,
                            config,
                            "decoder",
                            config.flag(true, "decoder_bias") ? "decoder.bias" : null,
                            EMBEDDINGS + ".tok_embeddings",
                            head(x),
                            hidden);
                case SEQUENCES -> EncoderHeads.classes(draft, config, "classifier", head(pooled(x, tokens)), hidden);
                case TOKENS -> EncoderHeads.classesOfTokens(draft, config, "classifier", head(x), hidden);
                case ANSWERS -> EncoderHeads.answers(draft, config, "classifier", head(x), hidden);
                case BARE -> {
                    List.of("head.dense.weight", "head.dense.bias", "head.norm.weight", "head.norm.bias")
                            .forEach(draft.parameters()::account);
                    EncoderHeads.bare(draft, x, hidden);
                }
            }
        }

        /** Layers with windows: by {@code layer_types}, or all but each third, or {@code global_attn_every_n_layers}th. */
        private IntPredicate local() {
            List<String> types = config.texts("layer_types");
            if (types.isEmpty()) {
                int every = config.sizeOr(3, "global_attn_every_n_layers");
                return i -> i % every != 0;
            }
            return SlidingWindow.isSliding(config, types);
        }

        /** Angles of one kind of layers: of its own rope_parameters, or of the key of old files. */
        private RotaryAngles.Tables tables(Tokens tokens, String kind, double theta, String oldKey, String name) {
            ObjectNode json = config.json().deepCopy();
            ObjectNode rope =
                    json.path("rope_parameters").path(kind) instanceof ObjectNode own ? own : json.objectNode();
            json.set("rope_parameters", rope);
            RotaryAngles.Family family = RotaryAngles.Family.LLAMA.withTheta(config.positive(theta, oldKey));
            return RotaryAngles.of(new HfConfig(json, config.where()), headSize, family)
                    .tables(draft, tokens, name, false);
        }

        private String norm(String module, String x) {
            return config.flag(false, "norm_bias")
                    ? draft.layerNorm(module, x, hidden, epsilon)
                    : draft.centredNorm(module, x, hidden, epsilon);
        }

        private String layer(int index, String x, RotaryAngles.Tables tables, String mask) {
            String module = PREFIX + "layers." + index;
            String path = GraphDraft.path(module);
            String attention = module + ".attn";
            String before = index == 0 ? x : norm(module + ".attn_norm", x);
            boolean bias = config.flag(false, "attention_bias");
            List<String> qkv = draft.split(
                    path + "/attn/Wqkv",
                    draft.linear(attention + ".Wqkv", before, hidden, 3 * hidden, bias),
                    hidden,
                    hidden,
                    hidden);
            String q = tables.turn(draft, path + "/attn/q_rotary", qkv.get(0), heads.heads());
            String k = tables.turn(draft, path + "/attn/k_rotary", qkv.get(1), heads.heads());
            String attended = heads.attend(draft, attention, q, k, qkv.get(2), mask);
            String middle =
                    draft.add(path + "/residual", x, draft.linear(attention + ".Wo", attended, hidden, hidden, bias));
            GatedMlp mlp = new GatedMlp(
                    hidden,
                    config.size("intermediate_size"),
                    Activations.of(config, "hidden_activation", "gelu"),
                    config.flag(false, "mlp_bias"));
            String y = mlp.emitFused(draft, module + ".mlp", "Wi", "Wo", norm(module + ".mlp_norm", middle));
            return draft.add(path + "/residual", middle, y);
        }

        private String head(String x) {
            String dense = draft.linear("head.dense", x, hidden, hidden, config.flag(false, "classifier_bias"));
            String active = Activations.emit(
                    draft, "/head/act", Activations.of(config, "classifier_activation", "gelu"), dense);
            return norm("head.norm", active);
        }

        /** The first token, or the mean of all that are no padding; [batch, hidden]. */
        private String pooled(String x, Tokens tokens) {
            String how = config.text("cls", "classifier_pooling");
            return switch (how) {
                case "cls" -> EncoderHeads.first(draft, "", x);
                case "mean" -> mean(x, tokens);
                default -> throw config.unsupported("classifier_pooling", how, "cls, mean");
            };
        }

        private String mean(String x, Tokens tokens) {
            String path = "/pooling";
            String mask =
                    draft.op(path + "/Cast", "Cast", List.of(tokens.mask()), Attribute.of("to", DType.F32.onnxId()));
            String axis = draft.longs("axes_1", Shape.of(1), 1);
            String column =
                    draft.op(path + "/Unsqueeze", "Unsqueeze", List.of(mask, draft.longs("axes_2", Shape.of(1), 2)));
            String kept = draft.op(path + "/Mul", "Mul", List.of(x, column));
            String sum = draft.op(path + "/ReduceSum", "ReduceSum", List.of(kept, axis), Attribute.of("keepdims", 0));
            String count =
                    draft.op(path + "/ReduceSum_mask", "ReduceSum", List.of(mask, axis), Attribute.of("keepdims", 1));
            return draft.op(path + "/Div", "Div", List.of(sum, count));
        }
    }
}
