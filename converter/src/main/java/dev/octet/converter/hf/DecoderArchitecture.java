package dev.octet.converter.hf;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import java.util.regex.Pattern;

/**
 * A family of decoders that share Llama's layers, described by what it computes differently. {@link RotaryDecoder} builds the graph. One more
 * family is one more constant in {@link Decoders}.
 *
 * @param modelType {@code model_type} in {@code config.json}
 * @param classes with an output layer and without
 * @param attentionBias which Linears of attention have biases
 * @param window which layers see only a window of positions
 * @param rotated which layers have rotary positions
 * @param rotary what its configurations leave out of the angles
 * @param headSize {@code head_dim} where the key is absent; empty for {@code hidden_size / num_attention_heads}
 * @param activation of the MLP
 * @param scores what attention does with its scores, and the output layer with logits
 * @param mixture of experts in place of the MLP; empty for none
 * @param epsilon of the norms where the key is absent
 * @param padding {@code pad_token_id} where the key is absent
 * @param features what else differs
 */
record DecoderArchitecture(
        String modelType,
        List<String> classes,
        AttentionBias attentionBias,
        SlidingWindow window,
        RotatedLayers rotated,
        RotaryAngles.Family rotary,
        Optional<Integer> headSize,
        MlpActivation activation,
        ScoreScaling scores,
        Optional<Mixture> mixture,
        double epsilon,
        Optional<Integer> padding,
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
        /** Norms are LayerNorm without a bias instead of RMSNorm. */
        LAYER_NORMS,
        /** What attention and MLP give is normalised before it is added to the residual; what they read is not. */
        OUTPUT_NORMS_ONLY,
        /** Attention and MLP read the same norm, and both are added to the residual. */
        PARALLEL,
        /** All heads of q together, and of k, are normalised before they are rotated. */
        PROJECTION_NORMS,
        /** Each head of q and k is normalised with a weight of its own where {@code use_qk_norm} is true. */
        CONFIGURED_HEAD_NORMS,
        /** q, k and v come from one Linear. */
        FUSED_QKV,
        /** Gate and up come from one Linear. */
        FUSED_GATE_UP,
        /** Pairs that rotate are neighbours. */
        INTERLEAVED,
        /** {@code embedding_multiplier} and {@code residual_multiplier}, the latter for what attention and MLP give. */
        MULTIPLIERS,
        /** Keys and values are made of one short vector for all heads. */
        LATENT_ATTENTION,
        /** Heads have a score of their own for looking at nothing. */
        SINKS,
        /** Heads of q and k are normalised behind positions, without a weight; without positions, q grows with the length of the text. */
        TEMPERATURE
    }

    /** Features that {@link GraphTraits} does not show: models are restored with their configuration only. */
    private static final Set<Feature> UNSEEN_FEATURES = EnumSet.of(
            Feature.OUTPUT_NORMS,
            Feature.OUTPUT_NORMS_ONLY,
            Feature.LAYER_NORMS,
            Feature.PARALLEL,
            Feature.PROJECTION_NORMS,
            Feature.CONFIGURED_HEAD_NORMS,
            Feature.FUSED_QKV,
            Feature.FUSED_GATE_UP,
            Feature.INTERLEAVED,
            Feature.MULTIPLIERS,
            Feature.LATENT_ATTENTION,
            Feature.SINKS,
            Feature.TEMPERATURE);

    /** Frequencies that files of old versions keep; they follow from the configuration. */
    private static final Pattern FREQUENCIES = Pattern.compile("\\.rotary_emb\\.inv_freq$");

    /** The layer behind DeepSeek-V3's last, which predicts a second token; transformers leaves it out, too. */
    private static final Pattern NEXT_TOKENS = Pattern.compile("^model\\.layers\\.61\\.");

    private static final List<String> UNSEEN = List.of(
            "max_position_embeddings", "attention_dropout", "initializer_range", "bos_token_id", "eos_token_id");

    private static final String CAUSAL_LM = "ForCausalLM";

    DecoderArchitecture {
        classes = List.copyOf(classes);
        features = Set.copyOf(features);
    }

    /**
     * Llama's layers without biases: RMSNorm before attention and before a gated MLP with SiLU, rotary positions, grouped heads.
     *
     * @param family what the names of its classes begin with, {@code Llama} of {@code LlamaForCausalLM}
     */
    static DecoderArchitecture of(String modelType, String family) {
        return new DecoderArchitecture(
                modelType,
                List.of(family + CAUSAL_LM, family + "Model"),
                AttentionBias.NONE,
                SlidingWindow.NONE,
                RotatedLayers.ALL,
                RotaryAngles.Family.LLAMA,
                Optional.empty(),
                MlpActivation.SILU,
                ScoreScaling.PLAIN,
                Optional.empty(),
                1e-6,
                Optional.empty(),
                Set.of());
    }

    /** A copy that is being changed. */
    private final class Change {
        private List<String> named = classes;
        private AttentionBias biases = attentionBias;
        private SlidingWindow layers = window;
        private RotatedLayers turning = rotated;
        private RotaryAngles.Family angles = rotary;
        private Optional<Integer> size = headSize;
        private MlpActivation mlp = activation;
        private ScoreScaling scaling = scores;
        private Optional<Mixture> experts = mixture;
        private double small = epsilon;
        private Optional<Integer> pad = padding;
        private Set<Feature> all = features;

        private DecoderArchitecture made() {
            return new DecoderArchitecture(
                    modelType, named, biases, layers, turning, angles, size, mlp, scaling, experts, small, pad, all);
        }
    }

    private DecoderArchitecture changed(Consumer<Change> change) {
        Change c = new Change();
        change.accept(c);
        return c.made();
    }

    /** Where the class without an output layer is not called like the family. */
    DecoderArchitecture withBareClass(String name) {
        return changed(c -> c.named = List.of(classes.getFirst(), name));
    }

    DecoderArchitecture withAttentionBias(AttentionBias bias) {
        return changed(c -> c.biases = bias);
    }

    DecoderArchitecture withWindow(SlidingWindow layers) {
        return changed(c -> c.layers = layers);
    }

    DecoderArchitecture withRotated(RotatedLayers layers) {
        return changed(c -> c.turning = layers);
    }

    DecoderArchitecture withRotary(RotaryAngles.Family angles) {
        return changed(c -> c.angles = angles);
    }

    DecoderArchitecture withHeadSize(int fallback) {
        return changed(c -> c.size = Optional.of(fallback));
    }

    DecoderArchitecture withActivation(MlpActivation mlp) {
        return changed(c -> c.mlp = mlp);
    }

    DecoderArchitecture withScores(ScoreScaling kind) {
        return changed(c -> c.scaling = kind);
    }

    DecoderArchitecture withMixture(Mixture experts) {
        return changed(c -> c.experts = Optional.of(experts));
    }

    DecoderArchitecture withEpsilon(double fallback) {
        return changed(c -> c.small = fallback);
    }

    DecoderArchitecture withPadding(int fallback) {
        return changed(c -> c.pad = Optional.of(fallback));
    }

    DecoderArchitecture with(Feature... more) {
        Set<Feature> both = EnumSet.noneOf(Feature.class);
        both.addAll(features);
        both.addAll(List.of(more));
        return changed(c -> c.all = both);
    }

    boolean has(Feature feature) {
        return features.contains(feature);
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
        RotaryDecoder.of(this, config, draft).build(modelClass.endsWith(CAUSAL_LM));
    }

    /** How many norms a layer has, without those of q and k. */
    int normsOfLayer() {
        return has(Feature.OUTPUT_NORMS) ? 4 : has(Feature.PARALLEL) ? 1 : 2;
    }

    /** Weights of the norms of q and k in a layer. */
    int normWeightsOfHeads(HfConfig config, int heads, int keyHeads, int size) {
        boolean each = has(Feature.PROJECTION_NORMS)
                || (has(Feature.CONFIGURED_HEAD_NORMS) && config.flag(false, "use_qk_norm"));
        return each ? (heads + keyHeads) * size : has(Feature.HEAD_NORMS) ? 2 * size : 0;
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

    /** Whether pairs that rotate are neighbours. */
    boolean hasNeighbours(HfConfig config) {
        return has(Feature.INTERLEAVED) || (has(Feature.LATENT_ATTENTION) && config.flag(true, "rope_interleave"));
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
        if (mixture.isPresent()) {
            return MixtureCandidates.of(this, mixture.get(), t);
        }
        Optional<ObjectNode> rope = RotaryAngles.parameters(t.frequencies(), t.headSize());
        boolean fits = t.ofTokens()
                && t.rmsNorm()
                && t.headNorms() == has(Feature.HEAD_NORMS)
                && (!t.normOffset() || has(Feature.NORM_OFFSET)) // exporters fold 1 + weight
                && features.stream().noneMatch(UNSEEN_FEATURES::contains)
                && rotated == RotatedLayers.ALL
                && !t.hasExperts()
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
