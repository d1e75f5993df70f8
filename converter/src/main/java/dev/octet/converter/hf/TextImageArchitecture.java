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
 * CLIP and SigLIP: a tower for texts, one for images, and how near what they give is; or one tower alone. Sources: transformers/models/clip and
 * siglip.
 *
 * @param modelType {@code model_type} in {@code config.json}
 * @param family whose classes these are
 * @param part of the model
 */
record TextImageArchitecture(String modelType, Family family, Part part) implements Architecture {
    /** What the two families compute otherwise. */
    enum Family {
        /** Causal texts, of which the token that ends them counts; images with a class token. */
        CLIP("CLIP", "quick_gelu", 1e-5),
        /** Texts seen whole, of which the last token counts; images that are looked at by a probe. */
        SIGLIP("Siglip", "gelu_pytorch_tanh", 1e-6);

        private final String prefix;
        private final String activation;
        private final double epsilon;

        Family(String prefix, String activation, double epsilon) {
            this.prefix = prefix;
            this.activation = activation;
            this.epsilon = epsilon;
        }
    }

    /** Which part of the model a checkpoint is of. */
    enum Part {
        BOTH,
        TEXT,
        IMAGE
    }

    private static final String TEXT = "text_model";
    private static final String IMAGE = "vision_model";
    private static final String PROJECTED_TEXT = "TextModelWithProjection";
    private static final String PROJECTED_IMAGE = "VisionModelWithProjection";
    private static final Dim IMAGES = Dim.of("images");

    @Override
    public List<String> classes() {
        String name = family.prefix;
        boolean projects = family == Family.CLIP;
        return switch (part) {
            case BOTH -> List.of(name + "Model");
            case TEXT -> projects ? List.of(name + "TextModel", name + PROJECTED_TEXT) : List.of(name + "TextModel");
            case IMAGE ->
                projects ? List.of(name + "VisionModel", name + PROJECTED_IMAGE) : List.of(name + "VisionModel");
        };
    }

    @Override
    public String prefix() {
        return switch (part) {
            case BOTH -> "";
            case TEXT -> TEXT + ".";
            case IMAGE -> IMAGE + ".";
        };
    }

    @Override
    public boolean keepsPrefix(String modelClass) {
        return modelClass.endsWith(PROJECTED_TEXT) || modelClass.endsWith(PROJECTED_IMAGE);
    }

    /** Buffers of old versions. */
    @Override
    public List<Pattern> ignored() {
        return List.of(Pattern.compile("embeddings\\.position_ids$"));
    }

    @Override
    public List<String> unseen() {
        return List.of("attention_dropout", "initializer_range", "initializer_factor");
    }

    /** What a tower gives. */
    private record Tower(String last, String pooled, int hidden) {}

    @Override
    public void build(HfConfig config, String modelClass, GraphDraft draft) {
        switch (part) {
            case BOTH -> both(config, draft);
            case TEXT -> {
                Tower text = text(config, draft);
                output(draft, text, Tokens.BATCH, Tokens.SEQUENCE);
                if (modelClass.endsWith(PROJECTED_TEXT)) {
                    projected(config, draft, text, "text_projection", "text_embeds");
                } else {
                    draft.output("pooler_output", text.pooled(), Tokens.BATCH, Dim.of(text.hidden()));
                }
            }
            case IMAGE -> {
                Tower image = image(config, draft, Tokens.BATCH);
                output(draft, image, Tokens.BATCH, Dim.of(tokens(config)));
                if (modelClass.endsWith(PROJECTED_IMAGE)) {
                    projected(config, draft, image, "visual_projection", "image_embeds");
                } else if (!image.pooled().isEmpty()) {
                    draft.output("pooler_output", image.pooled(), Tokens.BATCH, Dim.of(image.hidden()));
                }
            }
        }
    }

    private static void output(GraphDraft draft, Tower tower, Dim batch, Dim tokens) {
        draft.output(HfImporter.BARE_OUTPUT, tower.last(), batch, tokens, Dim.of(tower.hidden()));
    }

    private static void projected(HfConfig config, GraphDraft draft, Tower tower, String module, String name) {
        int size = config.sizeOr(512, "projection_dim");
        String y = draft.linear(module, tower.pooled(), tower.hidden(), size, false);
        draft.output(name, y, Tokens.BATCH, Dim.of(size));
    }

    private void both(HfConfig config, GraphDraft draft) {
        Tower text = text(tower(config, "text_config"), draft);
        HfConfig images = tower(config, "vision_config");
        Tower image = image(images, draft, IMAGES);
        String texts = text.pooled();
        String pictures = image.pooled();
        int size = text.hidden();
        if (family == Family.CLIP) {
            size = config.sizeOr(512, "projection_dim");
            texts = draft.linear("text_projection", texts, text.hidden(), size, false);
            pictures = draft.linear("visual_projection", pictures, image.hidden(), size, false);
        } else if (pictures.isEmpty() || text.hidden() != image.hidden()) {
            throw config.malformed("texts have " + text.hidden() + " elements and images " + image.hidden());
        }
        texts = normalised(draft, "/text_embeds", texts);
        pictures = normalised(draft, "/image_embeds", pictures);
        String turned = draft.op("/Transpose", "Transpose", List.of(pictures));
        String near = draft.op("/MatMul", "MatMul", List.of(texts, turned));
        long[] one = family == Family.CLIP ? new long[0] : new long[] {1};
        String scale = draft.op("/Exp", "Exp", List.of(draft.widened("logit_scale", one)));
        String byText = draft.op("/Mul", "Mul", List.of(near, scale));
        if (family == Family.SIGLIP) {
            byText = draft.add("/logits", byText, draft.widened("logit_bias", one));
        }
        String byImage = draft.op("/Transpose_logits", "Transpose", List.of(byText));
        draft.output("logits_per_image", byImage, IMAGES, Tokens.BATCH);
        draft.output("logits_per_text", byText, Tokens.BATCH, IMAGES);
        draft.output("text_embeds", texts, Tokens.BATCH, Dim.of(size));
        draft.output("image_embeds", pictures, IMAGES, Dim.of(size));
    }

    private static HfConfig tower(HfConfig config, String key) {
        ObjectNode own = config.object(key).orElseThrow(() -> config.malformed("the key " + key + " is missing"));
        return new HfConfig(own, config.where() + ", " + key);
    }

    private static String normalised(GraphDraft draft, String path, String x) {
        String length = draft.op(
                path + "/ReduceL2",
                "ReduceL2",
                List.of(x, draft.longs("axes_last", Shape.of(1), -1)),
                Attribute.of("keepdims", 1));
        return draft.op(path + "/Div", "Div", List.of(x, length));
    }

    private Tower text(HfConfig config, GraphDraft draft) {
        boolean clip = family == Family.CLIP;
        PreNormLayers layers = PreNormLayers.of(config, clip, family.activation, family.epsilon);
        int hidden = layers.hidden();
        Tokens tokens = new Tokens(draft);
        String words =
                draft.embedding(TEXT + ".embeddings.token_embedding", tokens.ids(), config.size("vocab_size"), hidden);
        String places = draft.embedding(
                TEXT + ".embeddings.position_embedding",
                tokens.positions(),
                config.sizeOr(clip ? 77 : 64, "max_position_embeddings"),
                hidden);
        String x = draft.add("/text_model/embeddings", words, places);
        int count = config.layers("num_hidden_layers");
        x = layers.emit(draft, TEXT + ".encoder.layers", count, x, tokens.padding());
        x = draft.layerNorm(TEXT + ".final_layer_norm", x, hidden, layers.epsilon());
        if (clip) {
            return new Tower(x, atEnd(config, draft, tokens, x), hidden);
        }
        String last = draft.op(
                "/text_model/Gather",
                "Gather",
                List.of(x, draft.longs("minus_one", Shape.of(), -1)),
                Attribute.of("axis", 1));
        int size = config.sizeOr(hidden, "projection_size");
        return new Tower(x, draft.linear(TEXT + ".head", last, hidden, size, true), size);
    }

    /**
     * The token that ends a text: the first {@code eos_token_id}; the largest number, the first of several, where that is 2, as in the first
     * files of CLIP.
     */
    private static String atEnd(HfConfig config, GraphDraft draft, Tokens tokens, String x) {
        String path = "/text_model/end";
        long end = config.count("eos_token_id").orElse(49_407);
        String marked = tokens.ids();
        if (end != 2) {
            String is = draft.op(
                    path + "/Equal", "Equal", List.of(tokens.ids(), draft.longs("end_of_text", Shape.of(), end)));
            marked = draft.op(path + "/Cast", "Cast", List.of(is), Attribute.of("to", DType.I64.onnxId()));
        }
        String axis = draft.longs("axes_1", Shape.of(1), 1);
        String most = draft.op(path + "/ReduceMax", "ReduceMax", List.of(marked, axis), Attribute.of("keepdims", 1));
        String all = draft.op(path + "/Equal_most", "Equal", List.of(marked, most));
        String ones = draft.op(path + "/Cast_all", "Cast", List.of(all), Attribute.of("to", DType.I64.onnxId()));
        String counts = draft.op(path + "/CumSum", "CumSum", List.of(ones, draft.longs("one", Shape.of(), 1)));
        String first = draft.op(path + "/Equal_first", "Equal", List.of(counts, draft.longs("one", Shape.of(), 1)));
        String chosen = draft.op(path + "/And", "And", List.of(first, all));
        String weight =
                draft.op(path + "/Cast_chosen", "Cast", List.of(chosen), Attribute.of("to", DType.F32.onnxId()));
        String column =
                draft.op(path + "/Unsqueeze", "Unsqueeze", List.of(weight, draft.longs("axes_2", Shape.of(1), 2)));
        String kept = draft.op(path + "/Mul", "Mul", List.of(x, column));
        return draft.op(path + "/ReduceSum", "ReduceSum", List.of(kept, axis), Attribute.of("keepdims", 0));
    }

    private long tokens(HfConfig config) {
        return Patches.of(config).count() + (family == Family.CLIP ? 1 : 0);
    }

    private Tower image(HfConfig config, GraphDraft draft, Dim batch) {
        boolean clip = family == Family.CLIP;
        PreNormLayers layers = PreNormLayers.of(config, false, family.activation, family.epsilon);
        int hidden = layers.hidden();
        double epsilon = layers.epsilon();
        String embeddings = IMAGE + ".embeddings";
        String path = GraphDraft.path(embeddings);
        Patches patches = Patches.of(config);
        String pixels = patches.input(draft, batch);
        String x = patches.tokens(draft, path, embeddings + ".patch_embedding", pixels, hidden, !clip);
        if (clip) {
            String token = draft.widened(embeddings + ".class_embedding", hidden);
            String first = Patches.repeated(draft, path, pixels, token, hidden);
            x = draft.op(path + "/Concat", "Concat", List.of(first, x), Attribute.of("axis", 1));
        }
        x = draft.add(path, x, draft.widened(embeddings + ".position_embedding.weight", tokens(config), hidden));
        if (clip) {
            x = draft.layerNorm(IMAGE + ".pre_layrnorm", x, hidden, epsilon);
        }
        x = layers.emit(draft, IMAGE + ".encoder.layers", config.layers("num_hidden_layers"), x, null);
        if (clip) {
            String first = EncoderHeads.first(draft, "/vision_model", x);
            return new Tower(x, draft.layerNorm(IMAGE + ".post_layernorm", first, hidden, epsilon), hidden);
        }
        x = draft.layerNorm(IMAGE + ".post_layernorm", x, hidden, epsilon);
        Optional<String> pooled = config.flag(true, "vision_use_head")
                ? Optional.of(probed(draft, layers, pixels, x, patches.count()))
                : Optional.empty();
        return new Tower(x, pooled.orElse(""), hidden);
    }

    /** What a learned probe finds in the patches: attention, and an MLP beside it. */
    private static String probed(GraphDraft draft, PreNormLayers layers, String pixels, String x, long patches) {
        String head = IMAGE + ".head";
        String attention = head + ".attention";
        String path = GraphDraft.path(head);
        int hidden = layers.hidden();
        String probe = Patches.repeated(draft, path, pixels, draft.widened(head + ".probe", 1, 1, hidden), hidden);
        String weight = draft.stored(attention + ".in_proj_weight", 3L * hidden, hidden);
        String bias = draft.stored(attention + ".in_proj_bias", 3L * hidden);
        String all = draft.op(path + "/Concat", "Concat", List.of(probe, x), Attribute.of("axis", 1));
        String both = draft.linear(attention + ".in_proj", all, weight, bias, 1);
        List<String> qkv = draft.split(GraphDraft.path(attention), both, hidden, hidden, hidden);
        String q = ofProbeAndPatches(draft, path + "/q", qkv.get(0), patches).get(0);
        String k = ofProbeAndPatches(draft, path + "/k", qkv.get(1), patches).get(1);
        String v = ofProbeAndPatches(draft, path + "/v", qkv.get(2), patches).get(1);
        String y = layers.heads().attend(draft, attention, q, k, v, null);
        String found = draft.linear(attention + ".out_proj", y, hidden, hidden, true);
        String normed = draft.layerNorm(head + ".layernorm", found, hidden, layers.epsilon());
        String sum = draft.add(path, found, layers.mlp(draft, head + ".mlp", normed));
        return EncoderHeads.first(draft, path, sum);
    }

    private static List<String> ofProbeAndPatches(GraphDraft draft, String path, String x, long patches) {
        String parts = draft.longs("probe_and_patches", Shape.of(2), 1, patches);
        return draft.ops(path + "/Split", "Split", List.of(x, parts), 2, Attribute.of("axis", 1));
    }
}
