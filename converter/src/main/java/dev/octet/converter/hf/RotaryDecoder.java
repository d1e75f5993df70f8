package dev.octet.converter.hf;

import dev.octet.converter.hf.DecoderArchitecture.Feature;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Half;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.function.IntFunction;
import java.util.function.IntPredicate;
import org.jspecify.annotations.Nullable;

/**
 * The graph of one model of a {@link DecoderArchitecture}: RMSNorm before attention and before a gated MLP, rotary positions, grouped heads.
 * Source: transformers/models/llama/modeling_llama.py, and those of the families.
 */
final class RotaryDecoder {
    static final String PREFIX = "model.";

    /**
     * Sizes of the model, the same in all layers.
     *
     * @param hidden elements of a token between layers
     * @param headSize elements of a head
     */
    private record Sizes(int vocabulary, int hidden, int headSize, int layers) {}

    /**
     * Which Linears have biases.
     *
     * @param qkv q, k and v
     * @param out the output of attention
     * @param mlp the three of the MLP
     */
    private record Biases(boolean qkv, boolean out, boolean mlp) {}

    private final DecoderArchitecture architecture;
    private final HfConfig config;
    private final GraphDraft draft;
    private final Sizes sizes;
    private final Biases biases;
    private final double epsilon;
    private final float residualFactor;
    private final String activation;
    private final AttentionHeads heads;
    private final IntFunction<Optional<Integer>> window;
    private final Tokens tokens;
    private @Nullable String temperature;

    private RotaryDecoder(
            DecoderArchitecture architecture,
            HfConfig config,
            GraphDraft draft,
            Sizes sizes,
            Biases biases,
            AttentionHeads heads) {
        this.architecture = architecture;
        this.config = config;
        this.draft = draft;
        this.sizes = sizes;
        this.biases = biases;
        this.heads = heads;
        this.tokens = new Tokens(draft);
        String key = architecture.has(Feature.LAYER_NORMS) ? "layer_norm_eps" : "rms_norm_eps";
        this.epsilon = config.positive(architecture.epsilon(), key);
        this.residualFactor =
                architecture.has(Feature.MULTIPLIERS) ? (float) config.positive(1, "residual_multiplier") : 1;
        this.activation = architecture.activation().of(config);
        this.window = architecture.window().of(config);
    }

    /** @throws dev.octet.formats.error.OctetException when a key is missing, absurd, or asks for what is not computed here */
    static RotaryDecoder of(DecoderArchitecture architecture, HfConfig config, GraphDraft draft) {
        if (config.flag(false, "use_bidirectional_attention")) {
            throw config.unsupported("use_bidirectional_attention", "true", "false");
        }
        int headSize = architecture.headSize(config);
        int heads = config.size("num_attention_heads");
        int keyHeads = config.sizeOr(heads, "num_key_value_heads");
        config.divided(heads, "num_attention_heads", keyHeads, "num_key_value_heads");
        return new RotaryDecoder(
                architecture,
                config,
                draft,
                new Sizes(
                        config.size("vocab_size"),
                        config.size("hidden_size"),
                        headSize,
                        config.layers("num_hidden_layers")),
                new Biases(
                        architecture.hasInputBias(config),
                        architecture.hasOutputBias(config),
                        architecture.has(Feature.MLP_BIAS) && config.flag(false, "mlp_bias")),
                new AttentionHeads(
                        heads,
                        keyHeads,
                        headSize,
                        headSize,
                        architecture.scores().scale(config, headSize),
                        true,
                        architecture.scores().scoreCap(config).orElse(0f)));
    }

    /** Adds the model; {@code causalLm} with its output layer. */
    void build(boolean causalLm) {
        int hidden = sizes.hidden();
        String x = embedding(tokens.ids());
        IntFunction<Optional<RotaryAngles.Tables>> tables = tables();
        int longest = config.sizeOr(Integer.MAX_VALUE, "max_position_embeddings");
        for (int i = 0; i < sizes.layers(); i++) {
            String mask = window.apply(i)
                    .filter(w -> w < longest)
                    .map(w -> architecture.window().mask(tokens, w))
                    .orElseGet(tokens::padding);
            x = layer(i, x, tables.apply(i), mask);
        }
        x = norm(PREFIX + "norm", x, hidden);
        if (!causalLm) {
            draft.output(HfImporter.BARE_OUTPUT, x, Tokens.BATCH, Tokens.SEQUENCE, Dim.of(hidden));
            return;
        }
        boolean tied = config.flag(architecture.has(Feature.TIED), "tie_word_embeddings");
        int vocabulary = sizes.vocabulary();
        String weight = TiedHead.weight(
                draft, config, tied, "lm_head.weight", PREFIX + "embed_tokens.weight", vocabulary, hidden);
        String logits = draft.scaled(
                "/lm_head",
                draft.linear("lm_head", draft.last(x), weight, null, 1),
                "logit_scale",
                architecture.scores().logitScale(config));
        Optional<Float> cap = architecture.scores().logitCap(config);
        draft.output(
                "logits",
                cap.isPresent() ? capped(logits, cap.get()) : logits,
                Tokens.BATCH,
                Tokens.SEQUENCE,
                Dim.of(vocabulary));
    }

    /** Angles by the number of a layer; empty for layers without positions. */
    private IntFunction<Optional<RotaryAngles.Tables>> tables() {
        RotatedLayers layers = architecture.rotated();
        IntPredicate rotate = layers.rotate(config, i -> window.apply(i).isPresent());
        RotaryAngles.Tables global = tables(layers.global(config), architecture.rotary(), "rotary_emb");
        if (!layers.hasLocalBase()) {
            return i -> rotate.test(i) ? Optional.of(global) : Optional.empty();
        }
        if (config.json().path("sliding_window").isNull()) {
            throw config.unsupported("sliding_window", "null", "a number of positions");
        }
        RotaryAngles.Tables local = tables(
                layers.local(config), architecture.rotary().withTheta(RotaryAngles.DEFAULT_THETA), "rotary_emb_local");
        return i -> Optional.of(window.apply(i).isPresent() ? local : global);
    }

    private RotaryAngles.Tables tables(HfConfig own, RotaryAngles.Family family, String name) {
        return RotaryAngles.of(own, architecture.turnedSize(config), family)
                .tables(draft, tokens, name, architecture.hasNeighbours(config));
    }

    private String embedding(String ids) {
        String module = PREFIX + "embed_tokens";
        int vocabulary = sizes.vocabulary();
        Optional<Integer> padding = config.json().has("pad_token_id")
                ? config.padding(vocabulary)
                : architecture.padding().filter(p -> p < vocabulary);
        String rows = draft.embedding(module, ids, vocabulary, sizes.hidden(), padding);
        if (architecture.has(Feature.MULTIPLIERS)) {
            float factor = (float) config.positive(1, "embedding_multiplier");
            return draft.scaled(GraphDraft.path(module), rows, module + ".multiplier", factor);
        }
        if (!architecture.has(Feature.SCALED_EMBEDDINGS)) {
            return rows;
        }
        Tensor table = draft.parameters().peek(module + ".weight");
        float scale = rounded((float) Math.sqrt(sizes.hidden()), table == null ? DType.F32 : table.dtype());
        return draft.op(
                GraphDraft.path(module) + "/Mul",
                "Mul",
                List.of(rows, draft.floats(module + ".embed_scale", Shape.SCALAR, scale)));
    }

    /** As torch converts a number to the type of a weight: to nearest, ties to even. */
    private static float rounded(float value, DType type) {
        return switch (type) {
            case BF16 -> BFloat16.toFloat(BFloat16.fromFloat(value));
            case F16 -> Half.toFloat(Half.fromFloat(value));
            default -> value;
        };
    }

    private String capped(String x, float cap) {
        String number = draft.floats("final_logit_softcapping", Shape.SCALAR, cap);
        String tanh = draft.op("/lm_head/Tanh", "Tanh", List.of(draft.op("/lm_head/Div", "Div", List.of(x, number))));
        return draft.op("/lm_head/Mul", "Mul", List.of(tanh, number));
    }

    private String norm(String module, String x, int size) {
        if (architecture.has(Feature.LAYER_NORMS)) {
            return draft.centredNorm(module, x, size, epsilon);
        }
        return architecture.has(Feature.NORM_OFFSET)
                ? draft.offsetRmsNorm(module, x, size, epsilon)
                : draft.rmsNorm(module, x, size, epsilon);
    }

    private String layer(int index, String x, Optional<RotaryAngles.Tables> tables, @Nullable String mask) {
        String module = PREFIX + "layers." + index;
        String attention = module + ".self_attn";
        String before = module + ".input_layernorm";
        String between = module + ".post_attention_layernorm";
        String behind = module + ".post_feedforward_layernorm";
        int size = sizes.hidden();
        if (architecture.has(Feature.PARALLEL)) {
            String normed = norm(before, x, size);
            String attended = added(module, x, attention(attention, normed, tables, mask));
            return added(module, attended, mlp(index, module, normed));
        }
        if (architecture.has(Feature.OUTPUT_NORMS_ONLY)) {
            String middle = added(module, x, norm(between, attention(attention, x, tables, mask), size));
            return added(module, middle, norm(behind, mlp(index, module, middle), size));
        }
        String attended = attention(attention, norm(before, x, size), tables, mask);
        if (architecture.has(Feature.OUTPUT_NORMS)) {
            String middle = added(module, x, norm(between, attended, size));
            String normed = norm(module + ".pre_feedforward_layernorm", middle, size);
            return added(module, middle, norm(behind, mlp(index, module, normed), size));
        }
        String middle = added(module, x, attended);
        return added(module, middle, mlp(index, module, norm(between, middle, size)));
    }

    private String added(String module, String residual, String x) {
        String path = GraphDraft.path(module) + "/residual";
        return draft.add(path, residual, draft.scaled(path, x, "residual_multiplier", residualFactor));
    }

    private String attention(String module, String x, Optional<RotaryAngles.Tables> tables, @Nullable String mask) {
        if (architecture.has(Feature.LATENT_ATTENTION)) {
            return LatentAttention.of(config, architecture.scores(), biases.out())
                    .emit(draft, module, x, tables.orElseThrow(), mask);
        }
        int queryWidth = heads.heads() * sizes.headSize();
        List<String> qkv = normed(module, projected(module, x));
        String path = GraphDraft.path(module);
        String q = turned(tables, path + "/q_rotary", qkv.get(0), heads.heads());
        String k = turned(tables, path + "/k_rotary", qkv.get(1), heads.keyHeads());
        if (architecture.has(Feature.TEMPERATURE)) {
            q = tables.isPresent() ? lengthOfOne(path + "/q_norm", q, heads.heads()) : warmed(path, q);
            k = tables.isPresent() ? lengthOfOne(path + "/k_norm", k, heads.keyHeads()) : k;
        }
        String y = architecture.has(Feature.SINKS)
                ? new AttentionSinks(heads, sizes.headSize())
                        .attend(draft, tokens, module, q, k, qkv.get(2), mask == null ? tokens.padding() : mask)
                : heads.attend(draft, module, q, k, qkv.get(2), mask);
        return draft.linear(module + ".o_proj", y, queryWidth, sizes.hidden(), biases.out());
    }

    private String turned(Optional<RotaryAngles.Tables> tables, String path, String x, int count) {
        return tables.map(t -> t.turn(draft, path, x, count)).orElse(x);
    }

    /** q, k and v. */
    private List<String> projected(String module, String x) {
        int queryWidth = heads.heads() * sizes.headSize();
        int keyWidth = heads.keyHeads() * sizes.headSize();
        if (architecture.has(Feature.FUSED_QKV)) {
            String all = draft.linear(module + ".qkv_proj", x, sizes.hidden(), queryWidth + 2 * keyWidth, biases.qkv());
            return draft.split(GraphDraft.path(module) + "/qkv_proj", all, queryWidth, keyWidth, keyWidth);
        }
        return List.of(
                draft.linear(module + ".q_proj", x, sizes.hidden(), queryWidth, biases.qkv()),
                draft.linear(module + ".k_proj", x, sizes.hidden(), keyWidth, biases.qkv()),
                draft.linear(module + ".v_proj", x, sizes.hidden(), keyWidth, biases.qkv()));
    }

    /** The same with q and k normalised, where the family does so. */
    private List<String> normed(String module, List<String> qkv) {
        String q = module + ".q_norm";
        String k = module + ".k_norm";
        int size = sizes.headSize();
        if (architecture.has(Feature.PROJECTION_NORMS)) {
            return List.of(
                    norm(q, qkv.get(0), heads.heads() * size),
                    norm(k, qkv.get(1), heads.keyHeads() * size),
                    qkv.get(2));
        }
        boolean each = architecture.has(Feature.CONFIGURED_HEAD_NORMS) && config.flag(false, "use_qk_norm");
        if (!each && !architecture.has(Feature.HEAD_NORMS)) {
            return qkv;
        }
        return List.of(
                headNorm(q, qkv.get(0), heads.heads(), each),
                headNorm(k, qkv.get(1), heads.keyHeads(), each),
                qkv.get(2));
    }

    /** Llama 4's: each head with a mean square of one, where {@code use_qk_norm} is not false. */
    private String lengthOfOne(String path, String x, int count) {
        if (!config.flag(true, "use_qk_norm")) {
            return x;
        }
        int size = sizes.headSize();
        float[] ones = new float[size];
        Arrays.fill(ones, 1);
        String weight = draft.floats("ones_" + size, Shape.of(size), ones);
        return joined(path, draft.rmsNormOf(path, split(path, x, count), weight, epsilon), count);
    }

    /** Queries of layers without positions, which grow with the logarithm of their place where {@code attn_temperature_tuning} is not false. */
    private String warmed(String attention, String q) {
        if (!config.flag(true, "attn_temperature_tuning")) {
            return q;
        }
        if (temperature == null) {
            String path = "/temperature";
            String one = draft.floats("temperature_one", Shape.SCALAR, 1);
            String floor = draft.floats("floor_scale", Shape.SCALAR, (float) config.positive(8192, "floor_scale"));
            String scale = draft.floats("attn_scale", Shape.SCALAR, (float) config.positive(0.1, "attn_scale"));
            String place = draft.add(path, tokens.numbers(path), one);
            String steps =
                    draft.op(path + "/Floor", "Floor", List.of(draft.op(path + "/Div", "Div", List.of(place, floor))));
            String log = draft.op(path + "/Log", "Log", List.of(draft.add(path, steps, one)));
            String all = draft.add(path, draft.op(path + "/Mul", "Mul", List.of(log, scale)), one);
            temperature =
                    draft.op(path + "/Unsqueeze", "Unsqueeze", List.of(all, draft.longs("axes_1", Shape.of(1), 1)));
        }
        return draft.op(attention + "/Mul_temperature", "Mul", List.of(q, temperature));
    }

    private String headNorm(String module, String x, int count, boolean each) {
        String path = GraphDraft.path(module);
        int size = sizes.headSize();
        String split = split(path, x, count);
        return joined(
                path,
                each ? draft.centredHeadNorm(module, split, count, size, epsilon) : norm(module, split, size),
                count);
    }

    /** [batch, sequence, heads, size]. */
    private String split(String path, String x, int count) {
        int size = sizes.headSize();
        String shape = draft.longs("heads_" + count + "_of_" + size, Shape.of(4), 0, 0, count, size);
        return draft.op(path + "/Reshape", "Reshape", List.of(x, shape));
    }

    /** [batch, sequence, heads·size]. */
    private String joined(String path, String x, int count) {
        long width = (long) count * sizes.headSize();
        String shape = draft.longs("joined_" + width, Shape.of(3), 0, 0, width);
        return draft.op(path + "/Reshape_joined", "Reshape", List.of(x, shape));
    }

    private String mlp(int index, String layer, String x) {
        Optional<Mixture> mixture = architecture.mixture().filter(m -> m.isIn(config, index));
        if (mixture.isPresent()) {
            return new ExpertBlock(mixture.get(), config, draft, sizes.hidden(), activation)
                    .emit(layer + "." + mixture.get().block(), x);
        }
        String inner = architecture.mixture().map(Mixture::denseInner).orElse("intermediate_size");
        GatedMlp mlp = new GatedMlp(sizes.hidden(), config.size(inner), activation, biases.mlp());
        String module = layer + "." + architecture.mixture().map(Mixture::block).orElse("mlp");
        return architecture.has(Feature.FUSED_GATE_UP)
                ? mlp.emitFused(draft, module, "gate_up_proj", "down_proj", x)
                : mlp.emit(draft, module, "gate_proj", "up_proj", "down_proj", x);
    }
}
