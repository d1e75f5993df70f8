package dev.octet.converter.hf;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Pattern;

/**
 * A family of decoders that share Llama's layers, described by what it computes differently. {@link RotaryDecoder} builds the graph. One more
 * family is one more constant here and its row in {@link HfImporter#ARCHITECTURES}.
 *
 * @param modelType {@code model_type} in {@code config.json}
 * @param family what the names of its classes begin with, {@code Llama} of {@code LlamaForCausalLM}
 * @param attentionBias which Linears of attention have biases
 * @param window which layers see only a window of positions
 * @param headSize {@code head_dim} where the key is absent; empty for {@code hidden_size / num_attention_heads}
 * @param activation of the MLP
 * @param scores what attention does with its scores
 * @param mixture of experts in place of the MLP; empty for none
 * @param features what else differs
 */
record DecoderArchitecture(
        String modelType,
        String family,
        AttentionBias attentionBias,
        SlidingWindow window,
        Optional<Integer> headSize,
        MlpActivation activation,
        ScoreScaling scores,
        Optional<Mixture> mixture,
        Set<Feature> features)
        implements Architecture {
    /** Which Linears of attention have biases. */
    enum AttentionBias {
        NONE,
        /** q, k and v. */
        QKV,
        /** q, k and v unless {@code qkv_bias} is false. */
        QKV_CONFIGURED,
        /** All four where {@code attention_bias} is true, otherwise none. */
        CONFIGURED
    }

    /** What a family has and Llama does not, or has only where its configuration says so. */
    enum Feature {
        /** The Linears of the MLP have biases where {@code mlp_bias} is true. */
        MLP_BIAS,
        /** Each head of q and k is normalised before it is rotated. */
        HEAD_NORMS,
        /** RMSNorm multiplies by 1 + weight. */
        NORM_OFFSET,
        /** Embeddings are multiplied by the square root of the hidden size, rounded to the type of the table. */
        SCALED_EMBEDDINGS,
        /** What attention and MLP give is normalised before it is added to the residual. */
        OUTPUT_NORMS,
        /** The output layer has the embedding's weight unless {@code tie_word_embeddings} is false. */
        TIED,
        /** Keys and values are made of one short vector for all heads. */
        LATENT_ATTENTION,
        /** Heads have a score of their own for looking at nothing. */
        SINKS,
        /** Row 0 of the embedding is padding where {@code pad_token_id} is absent. */
        PADDED
    }

    /** Llama 1 to 3 and other models of this type. Source: transformers/models/llama. */
    static final Architecture LLAMA =
            of("llama", "Llama").withAttentionBias(AttentionBias.CONFIGURED).with(Feature.MLP_BIAS);

    /** Mistral: all layers may see only a window of positions. Source: transformers/models/mistral. */
    static final Architecture MISTRAL = of("mistral", "Mistral").withWindow(SlidingWindow.ALL_LAYERS);

    /** Qwen2 and Qwen2.5: biases on q, k and v, windows in some layers. Source: transformers/models/qwen2. */
    static final Architecture QWEN2 =
            of("qwen2", "Qwen2").withAttentionBias(AttentionBias.QKV).withWindow(SlidingWindow.UPPER_LAYERS);

    /** Qwen3: heads of q and k are normalised and have a size of their own. Source: transformers/models/qwen3. */
    static final Architecture QWEN3 = of("qwen3", "Qwen3")
            .withAttentionBias(AttentionBias.CONFIGURED)
            .withWindow(SlidingWindow.UPPER_LAYERS)
            .withHeadSize(128)
            .with(Feature.HEAD_NORMS);

    /** Gemma: norms around one, scaled and tied embeddings, Gelu. Source: transformers/models/gemma. */
    static final Architecture GEMMA = of("gemma", "Gemma")
            .withAttentionBias(AttentionBias.CONFIGURED)
            .withHeadSize(256)
            .withActivation(MlpActivation.GEMMA)
            .with(Feature.NORM_OFFSET, Feature.SCALED_EMBEDDINGS, Feature.TIED, Feature.PADDED);

    /** Gemma 2: capped scores and logits, norms behind attention and MLP, windows in every other layer. Source: transformers/models/gemma2. */
    static final Architecture GEMMA2 = of("gemma2", "Gemma2")
            .withAttentionBias(AttentionBias.CONFIGURED)
            .withWindow(SlidingWindow.EVERY_OTHER_LAYER)
            .withHeadSize(256)
            .withActivation(MlpActivation.GEMMA)
            .withScores(ScoreScaling.GEMMA2)
            .with(Feature.NORM_OFFSET, Feature.SCALED_EMBEDDINGS, Feature.OUTPUT_NORMS, Feature.TIED, Feature.PADDED);

    /** Mixtral: Mistral's layers with experts. Source: transformers/models/mixtral. */
    static final Architecture MIXTRAL =
            of("mixtral", "Mixtral").withWindow(SlidingWindow.ALL_LAYERS).withMixture(Mixture.MIXTRAL);

    /** Qwen2-MoE, such as Qwen1.5-MoE-A2.7B: Qwen2's layers with experts. Source: transformers/models/qwen2_moe. */
    static final Architecture QWEN2_MOE = of("qwen2_moe", "Qwen2Moe")
            .withAttentionBias(AttentionBias.QKV_CONFIGURED)
            .withWindow(SlidingWindow.LOWER_EVEN_LAYERS)
            .withMixture(Mixture.QWEN2);

    /** Qwen3-MoE: Qwen3's layers with experts. Source: transformers/models/qwen3_moe. */
    static final Architecture QWEN3_MOE = of("qwen3_moe", "Qwen3Moe")
            .withAttentionBias(AttentionBias.CONFIGURED)
            .withWindow(SlidingWindow.SWITCHED)
            .with(Feature.HEAD_NORMS)
            .withMixture(Mixture.QWEN3);

    /** DeepSeek-V2: latent attention, groups of experts. Source: transformers/models/deepseek_v2. */
    static final Architecture DEEPSEEK_V2 = of("deepseek_v2", "DeepseekV2")
            .withAttentionBias(AttentionBias.CONFIGURED)
            .withScores(ScoreScaling.YARN)
            .with(Feature.LATENT_ATTENTION)
            .withMixture(Mixture.DEEPSEEK_V2);

    /** DeepSeek-V3 and R1: that with another router. Source: transformers/models/deepseek_v3. */
    static final Architecture DEEPSEEK_V3 = of("deepseek_v3", "DeepseekV3")
            .withAttentionBias(AttentionBias.CONFIGURED)
            .withScores(ScoreScaling.YARN)
            .with(Feature.LATENT_ATTENTION)
            .withMixture(Mixture.DEEPSEEK_V3);

    /** gpt-oss: sinks, windows in every other layer, clamped experts with biases. Source: transformers/models/gpt_oss. */
    static final Architecture GPT_OSS = of("gpt_oss", "GptOss")
            .withAttentionBias(AttentionBias.CONFIGURED)
            .withWindow(SlidingWindow.EVERY_OTHER_LAYER)
            .withHeadSize(64)
            .with(Feature.SINKS)
            .withMixture(Mixture.GPT_OSS);

    /** Frequencies that files of old versions keep; they follow from the configuration. */
    private static final Pattern FREQUENCIES = Pattern.compile("\\.rotary_emb\\.inv_freq$");

    /** The layer behind DeepSeek-V3's last, which predicts a second token; transformers leaves it out, too. */
    private static final Pattern NEXT_TOKENS = Pattern.compile("^model\\.layers\\.61\\.");

    private static final List<String> UNSEEN = List.of(
            "max_position_embeddings", "attention_dropout", "initializer_range", "bos_token_id", "eos_token_id");

    DecoderArchitecture {
        features = Set.copyOf(features);
    }

    /** Llama's layers without biases: RMSNorm before attention and before a gated MLP with SiLU, rotary positions, grouped heads. */
    private static DecoderArchitecture of(String modelType, String family) {
        return new DecoderArchitecture(
                modelType,
                family,
                AttentionBias.NONE,
                SlidingWindow.NONE,
                Optional.empty(),
                MlpActivation.SILU,
                ScoreScaling.PLAIN,
                Optional.empty(),
                Set.of());
    }

    private DecoderArchitecture withAttentionBias(AttentionBias bias) {
        return new DecoderArchitecture(
                modelType, family, bias, window, headSize, activation, scores, mixture, features);
    }

    private DecoderArchitecture withWindow(SlidingWindow layers) {
        return new DecoderArchitecture(
                modelType, family, attentionBias, layers, headSize, activation, scores, mixture, features);
    }

    private DecoderArchitecture withHeadSize(int fallback) {
        return new DecoderArchitecture(
                modelType, family, attentionBias, window, Optional.of(fallback), activation, scores, mixture, features);
    }

    private DecoderArchitecture withActivation(MlpActivation mlp) {
        return new DecoderArchitecture(
                modelType, family, attentionBias, window, headSize, mlp, scores, mixture, features);
    }

    private DecoderArchitecture withScores(ScoreScaling kind) {
        return new DecoderArchitecture(
                modelType, family, attentionBias, window, headSize, activation, kind, mixture, features);
    }

    private DecoderArchitecture withMixture(Mixture experts) {
        return new DecoderArchitecture(
                modelType, family, attentionBias, window, headSize, activation, scores, Optional.of(experts), features);
    }

    private DecoderArchitecture with(Feature... more) {
        Set<Feature> all = EnumSet.noneOf(Feature.class);
        all.addAll(features);
        all.addAll(List.of(more));
        return new DecoderArchitecture(
                modelType, family, attentionBias, window, headSize, activation, scores, mixture, all);
    }

    boolean has(Feature feature) {
        return features.contains(feature);
    }

    @Override
    public List<String> classes() {
        return List.of(family + "ForCausalLM", family + "Model");
    }

    @Override
    public String prefix() {
        return RotaryDecoder.PREFIX;
    }

    @Override
    public List<Pattern> ignored() {
        return has(Feature.LATENT_ATTENTION) ? List.of(FREQUENCIES, NEXT_TOKENS) : List.of(FREQUENCIES);
    }

    @Override
    public List<String> unseen() {
        return UNSEEN;
    }

    @Override
    public void build(HfConfig config, String modelClass, GraphDraft draft) {
        RotaryDecoder.of(this, config, draft).build(modelClass.endsWith("ForCausalLM"));
    }

    /** Whether q, k and v have biases. */
    boolean hasInputBias(HfConfig config) {
        return switch (attentionBias) {
            case NONE -> false;
            case QKV -> true;
            case QKV_CONFIGURED -> config.flag(true, "qkv_bias");
            case CONFIGURED -> config.flag(false, "attention_bias");
        };
    }

    /** Whether the Linear behind attention has a bias. */
    boolean hasOutputBias(HfConfig config) {
        return attentionBias == AttentionBias.CONFIGURED && config.flag(false, "attention_bias");
    }

    /** Elements of a head that positions turn, or some of them. */
    int turnedSize(HfConfig config) {
        return has(Feature.LATENT_ATTENTION) ? config.size("qk_rope_head_dim") : headSize(config);
    }

    /** Elements of a head of queries. */
    int headSize(HfConfig config) {
        if (has(Feature.LATENT_ATTENTION)) {
            return config.size("qk_nope_head_dim") + config.size("qk_rope_head_dim");
        }
        return config.optionalSize("head_dim")
                .or(() -> headSize)
                .orElseGet(() -> config.divided(
                        config.size("hidden_size"),
                        "hidden_size",
                        config.size("num_attention_heads"),
                        "num_attention_heads"));
    }

    @Override
    public List<ObjectNode> candidates(GraphTraits t) {
        Optional<ObjectNode> rope = RotaryAngles.parameters(t.frequencies(), t.headSize());
        boolean fits = t.ofTokens()
                && t.rmsNorm()
                && t.headNorms() == has(Feature.HEAD_NORMS)
                && t.normOffset() == has(Feature.NORM_OFFSET)
                && !has(Feature.OUTPUT_NORMS)
                && mixture.isEmpty()
                && (t.window().isEmpty() || window == SlidingWindow.ALL_LAYERS);
        if (!fits || rope.isEmpty()) {
            return List.of();
        }
        List<ObjectNode> all = new ArrayList<>();
        for (boolean tied : t.predictsTokens() ? new boolean[] {true, false} : new boolean[] {false}) {
            ObjectNode config = Candidate.of(this, classes().get(t.predictsTokens() ? 0 : 1))
                    .put("vocab_size", t.vocabulary())
                    .put("hidden_size", t.hidden())
                    .put("num_hidden_layers", t.layers())
                    .put("num_attention_heads", t.heads())
                    .put("num_key_value_heads", t.keyHeads())
                    .put("head_dim", t.headSize())
                    .put("intermediate_size", t.inner())
                    .put(activation.key(), activation.name(t.activation()))
                    .put("rms_norm_eps", t.epsilon())
                    .put("tie_word_embeddings", tied);
            config.set("rope_parameters", rope.get());
            if (window == SlidingWindow.ALL_LAYERS) {
                t.window()
                        .ifPresentOrElse(w -> config.put("sliding_window", w), () -> config.putNull("sliding_window"));
            }
            all.addAll(withBiases(config));
        }
        return all;
    }

    /** No graph shows whether biases that are absent might be there: each setting is tried, all biases last. */
    private List<ObjectNode> withBiases(ObjectNode config) {
        List<ObjectNode> all = List.of(config);
        if (attentionBias == AttentionBias.CONFIGURED) {
            all = eitherWay(all, "attention_bias");
        }
        return has(Feature.MLP_BIAS) ? eitherWay(all, "mlp_bias") : all;
    }

    private static List<ObjectNode> eitherWay(List<ObjectNode> configs, String key) {
        return configs.stream()
                .flatMap(c -> List.of(c.deepCopy().put(key, false), c.deepCopy().put(key, true)).stream())
                .toList();
    }
}
