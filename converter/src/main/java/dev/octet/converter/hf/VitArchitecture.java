package dev.octet.converter.hf;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.tensor.Shape;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;

/**
 * Vision Transformer: patches through a convolution, a class token, LayerNorm before attention and MLP; bare or classifying images. Source:
 * transformers/models/vit/modeling_vit.py.
 */
final class VitArchitecture implements Architecture {
    private static final String PREFIX = "vit.";
    private static final double EPSILON = 1e-12;
    private static final String CLASSIFICATION = "ViTForImageClassification";

    @Override
    public String modelType() {
        return "vit";
    }

    @Override
    public List<String> classes() {
        return List.of("ViTModel", CLASSIFICATION);
    }

    @Override
    public String prefix() {
        return PREFIX;
    }

    @Override
    public List<Pattern> ignored() {
        return List.of();
    }

    @Override
    public List<String> optional() {
        return List.of(PREFIX + "pooler.dense.weight", PREFIX + "pooler.dense.bias");
    }

    @Override
    public List<String> unseen() {
        return List.of("hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range", "encoder_stride");
    }

    @Override
    public List<ObjectNode> candidates(GraphTraits t) {
        if (t.image().isEmpty() || t.rmsNorm()) {
            return List.of();
        }
        List<ObjectNode> all = new ArrayList<>();
        for (boolean bias : new boolean[] {true, false}) {
            ObjectNode config = Candidate.of(
                    this, t.classifies() ? CLASSIFICATION : classes().getFirst());
            pair(config, "image_size", t.image());
            pair(config, "patch_size", t.patch());
            config.put("num_channels", t.channels())
                    .put("hidden_size", t.hidden())
                    .put("num_hidden_layers", t.layers())
                    .put("num_attention_heads", t.heads())
                    .put("intermediate_size", t.inner())
                    .put("hidden_act", t.activation())
                    .put("layer_norm_eps", t.epsilon())
                    .put("qkv_bias", bias);
            if (t.classifies()) {
                Candidate.labels(config, t.outputWidth());
            }
            all.add(config);
        }
        return all;
    }

    private static void pair(ObjectNode config, String key, List<Integer> sizes) {
        if (sizes.getFirst().equals(sizes.getLast())) {
            config.put(key, sizes.getFirst());
        } else {
            sizes.forEach(config.withArray(key)::add);
        }
    }

    /** What all layers share. */
    private record Sizes(
            int hidden, int inner, double epsilon, String activation, boolean bias, AttentionHeads heads) {}

    @Override
    public void build(HfConfig config, String modelClass, GraphDraft draft) {
        int hidden = config.size("hidden_size");
        int heads = config.size("num_attention_heads");
        int headSize = config.divided(hidden, "hidden_size", heads, "num_attention_heads");
        int layers = config.layers("num_hidden_layers");
        Sizes sizes = new Sizes(
                hidden,
                config.size("intermediate_size"),
                config.positive(EPSILON, "layer_norm_eps"),
                Activations.of(config, "hidden_act", "gelu"),
                config.flag(true, "qkv_bias"),
                AttentionHeads.bidirectional(heads, headSize));
        Patches patches = Patches.of(config);
        String x = embeddings(draft, patches, hidden);
        for (int i = 0; i < layers; i++) {
            x = layer(draft, PREFIX + "encoder.layer." + i, x, sizes);
        }
        x = draft.layerNorm(PREFIX + "layernorm", x, hidden, sizes.epsilon());
        if (modelClass.equals(CLASSIFICATION)) {
            int labels = Labels.count(config);
            draft.output(
                    "logits",
                    draft.linear("classifier", first(draft, x), hidden, labels, true),
                    Tokens.BATCH,
                    Dim.of(labels));
            return;
        }
        draft.output("last_hidden_state", x, Tokens.BATCH, Dim.of(patches.count() + 1), Dim.of(hidden));
        if (draft.parameters().has(PREFIX + "pooler.dense.weight")) {
            pooler(config, draft, x, hidden);
        }
    }

    private static String embeddings(GraphDraft draft, Patches patches, int hidden) {
        String module = PREFIX + "embeddings";
        String path = GraphDraft.path(module);
        String pixels = patches.input(draft, Tokens.BATCH);
        String tokens = patches.tokens(draft, path, module + ".patch_embeddings.projection", pixels, hidden, true);
        String token =
                Patches.repeated(draft, path, pixels, draft.widened(module + ".cls_token", 1, 1, hidden), hidden);
        String all = draft.op(path + "/Concat", "Concat", List.of(token, tokens), Attribute.of("axis", 1));
        return draft.add(path, all, draft.widened(module + ".position_embeddings", 1, patches.count() + 1, hidden));
    }

    private static String layer(GraphDraft draft, String module, String x, Sizes s) {
        String path = GraphDraft.path(module);
        String self = module + ".attention.attention";
        String normed = draft.layerNorm(module + ".layernorm_before", x, s.hidden(), s.epsilon());
        String q = draft.linear(self + ".query", normed, s.hidden(), s.hidden(), s.bias());
        String k = draft.linear(self + ".key", normed, s.hidden(), s.hidden(), s.bias());
        String v = draft.linear(self + ".value", normed, s.hidden(), s.hidden(), s.bias());
        String y = s.heads().attend(draft, self, q, k, v, null);
        String attended = draft.linear(module + ".attention.output.dense", y, s.hidden(), s.hidden(), true);
        String middle = draft.add(path + "/residual", attended, x);
        normed = draft.layerNorm(module + ".layernorm_after", middle, s.hidden(), s.epsilon());
        String wide = draft.linear(module + ".intermediate.dense", normed, s.hidden(), s.inner(), true);
        String active = Activations.emit(draft, path + "/intermediate/act", s.activation(), wide);
        String dense = draft.linear(module + ".output.dense", active, s.inner(), s.hidden(), true);
        return draft.add(path + "/residual", dense, middle);
    }

    /** The class token, [batch, hidden]. */
    private static String first(GraphDraft draft, String x) {
        return draft.op("/Gather", "Gather", List.of(x, draft.longs("zero", Shape.of(), 0)), Attribute.of("axis", 1));
    }

    private static void pooler(HfConfig config, GraphDraft draft, String x, int hidden) {
        int out = config.sizeOr(hidden, "pooler_output_size");
        String dense = draft.linear(PREFIX + "pooler.dense", first(draft, x), hidden, out, true);
        String active =
                Activations.emit(draft, "/vit/pooler/activation", Activations.of(config, "pooler_act", "tanh"), dense);
        draft.output("pooler_output", active, Tokens.BATCH, Dim.of(out));
    }
}
