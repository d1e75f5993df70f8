package dev.octet.converter.hf;

import dev.octet.converter.hf.DecoderArchitecture.Feature;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Half;
import java.util.List;
import java.util.Optional;
import java.util.function.IntFunction;
import org.jspecify.annotations.Nullable;

/**
 * The graph of one model of a {@link DecoderArchitecture}: RMSNorm before attention and before a gated MLP, rotary positions, grouped heads.
 * Source: transformers/models/llama/modeling_llama.py, and those of the families.
 */
final class RotaryDecoder {
    static final String PREFIX = "model.";

    private static final double EPSILON = 1e-6;

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
    private final String activation;
    private final AttentionHeads heads;
    private final IntFunction<Optional<Integer>> window;
    private final Tokens tokens;

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
        this.epsilon = config.positive(EPSILON, "rms_norm_eps");
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
                        architecture.scores().scale(config, headSize),
                        true,
                        architecture.scores().scoreCap(config).orElse(0f)));
    }

    /** Adds the model; {@code causalLm} with its output layer. */
    void build(boolean causalLm) {
        int hidden = sizes.hidden();
        RotaryAngles angles = RotaryAngles.of(config, architecture.turnedSize(config));
        String x = embedding(tokens.ids());
        RotaryAngles.Tables tables = angles.tables(draft, tokens);
        int longest = config.sizeOr(Integer.MAX_VALUE, "max_position_embeddings");
        for (int i = 0; i < sizes.layers(); i++) {
            String mask =
                    window.apply(i).filter(w -> w < longest).map(tokens::window).orElseGet(tokens::padding);
            x = layer(i, x, tables, mask);
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
        String logits = draft.linear("lm_head", x, weight, null, 1);
        Optional<Float> cap = architecture.scores().logitCap(config);
        draft.output(
                "logits",
                cap.isPresent() ? capped(logits, cap.get()) : logits,
                Tokens.BATCH,
                Tokens.SEQUENCE,
                Dim.of(vocabulary));
    }

    private String embedding(String ids) {
        String module = PREFIX + "embed_tokens";
        int vocabulary = sizes.vocabulary();
        boolean byDefault = architecture.has(Feature.PADDED) && !config.json().has("pad_token_id");
        String rows = draft.embedding(
                module, ids, vocabulary, sizes.hidden(), byDefault ? Optional.of(0) : config.padding(vocabulary));
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
        return architecture.has(Feature.NORM_OFFSET)
                ? draft.offsetRmsNorm(module, x, size, epsilon)
                : draft.rmsNorm(module, x, size, epsilon);
    }

    private String layer(int index, String x, RotaryAngles.Tables tables, @Nullable String mask) {
        String module = PREFIX + "layers." + index;
        boolean outputNorms = architecture.has(Feature.OUTPUT_NORMS);
        String residual = GraphDraft.path(module) + "/residual";
        String attended =
                attention(module + ".self_attn", norm(module + ".input_layernorm", x, sizes.hidden()), tables, mask);
        if (outputNorms) {
            attended = norm(module + ".post_attention_layernorm", attended, sizes.hidden());
        }
        String middle = draft.add(residual, x, attended);
        String beforeMlp = outputNorms ? ".pre_feedforward_layernorm" : ".post_attention_layernorm";
        String y = mlp(index, module, norm(module + beforeMlp, middle, sizes.hidden()));
        if (outputNorms) {
            y = norm(module + ".post_feedforward_layernorm", y, sizes.hidden());
        }
        return draft.add(residual, middle, y);
    }

    private String attention(String module, String x, RotaryAngles.Tables tables, @Nullable String mask) {
        if (architecture.has(Feature.LATENT_ATTENTION)) {
            return LatentAttention.of(config, architecture.scores(), biases.out())
                    .emit(draft, module, x, tables, mask);
        }
        int queryWidth = heads.heads() * sizes.headSize();
        int keyWidth = heads.keyHeads() * sizes.headSize();
        String q = draft.linear(module + ".q_proj", x, sizes.hidden(), queryWidth, biases.qkv());
        String k = draft.linear(module + ".k_proj", x, sizes.hidden(), keyWidth, biases.qkv());
        String v = draft.linear(module + ".v_proj", x, sizes.hidden(), keyWidth, biases.qkv());
        if (architecture.has(Feature.HEAD_NORMS)) {
            q = headNorm(module + ".q_norm", q, heads.heads());
            k = headNorm(module + ".k_norm", k, heads.keyHeads());
        }
        String path = GraphDraft.path(module);
        q = tables.turn(draft, path + "/q_rotary", q, heads.heads());
        k = tables.turn(draft, path + "/k_rotary", k, heads.keyHeads());
        String y = architecture.has(Feature.SINKS)
                ? new AttentionSinks(heads, sizes.headSize())
                        .attend(draft, tokens, module, q, k, v, mask == null ? tokens.padding() : mask)
                : heads.attend(draft, module, q, k, v, mask);
        return draft.linear(module + ".o_proj", y, queryWidth, sizes.hidden(), biases.out());
    }

    private String headNorm(String module, String x, int count) {
        String path = GraphDraft.path(module);
        int size = sizes.headSize();
        String split = draft.op(
                path + "/Reshape",
                "Reshape",
                List.of(x, draft.longs("heads_" + count + "_of_" + size, Shape.of(4), 0, 0, count, size)));
        String normed = norm(module, split, size);
        long width = (long) count * size;
        return draft.op(
                path + "/Reshape_joined",
                "Reshape",
                List.of(normed, draft.longs("joined_" + width, Shape.of(3), 0, 0, width)));
    }

    private String mlp(int index, String layer, String x) {
        Optional<Mixture> mixture = architecture.mixture().filter(m -> m.isIn(config, index));
        if (mixture.isPresent()) {
            return new ExpertBlock(mixture.get(), config, draft, sizes.hidden(), activation)
                    .emit(layer + "." + mixture.get().block(), x);
        }
        return new GatedMlp(sizes.hidden(), config.size("intermediate_size"), activation, biases.mlp())
                .emit(draft, layer + ".mlp", "gate_proj", "up_proj", "down_proj", x);
    }
}
