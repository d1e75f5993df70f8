package dev.octet.converter.hf;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import java.util.Optional;

/**
 * The mixture of experts that a family of decoders has in place of an MLP: several MLPs, of which a router chooses some for each token.
 * {@link ExpertBlock} builds its graph.
 *
 * @param block what the module is called, {@code block_sparse_moe} of {@code model.layers.0.block_sparse_moe}
 * @param expert what each of them computes
 * @param counts where configurations have the number of experts, which transformers calls now so, now so
 * @param inner where it has the elements of a token within an expert
 * @param router how experts are chosen
 * @param shared what computes for all tokens besides
 * @param layers which layers have the mixture; others have an MLP
 */
record Mixture(
        String block, Expert expert, List<String> counts, String inner, Router router, Shared shared, Layers layers) {
    Mixture {
        counts = List.copyOf(counts);
    }

    /** Mixtral: weights of the chosen experts add up to one, in all layers. Source: transformers/models/mixtral. */
    static final Mixture MIXTRAL = new Mixture(
            "block_sparse_moe",
            Expert.MIXTRAL,
            List.of("num_local_experts", "num_experts"),
            "intermediate_size",
            Router.NORMALISED,
            Shared.NONE,
            Layers.ALL);

    /** Qwen2-MoE: small experts, and a shared one behind a gate. Source: transformers/models/qwen2_moe. */
    static final Mixture QWEN2 = new Mixture(
            "mlp",
            Expert.GATED,
            List.of("num_experts", "num_local_experts"),
            "moe_intermediate_size",
            Router.CONFIGURED,
            Shared.GATED,
            Layers.STEPS);

    /** Qwen3-MoE: that without a shared expert. Source: transformers/models/qwen3_moe. */
    static final Mixture QWEN3 = QWEN2.with(Shared.NONE);

    /** DeepSeek-V2: probabilities as they are, of experts of the best groups; a shared expert. Source: transformers/models/deepseek_v2. */
    static final Mixture DEEPSEEK_V2 = new Mixture(
            "mlp",
            Expert.GATED,
            List.of("n_routed_experts", "num_experts", "num_local_experts"),
            "moe_intermediate_size",
            Router.GROUPS,
            Shared.PLAIN,
            Layers.UPPER);

    /** DeepSeek-V3: sigmoids, chosen with a bias that balances them. Source: transformers/models/deepseek_v3. */
    static final Mixture DEEPSEEK_V3 = DEEPSEEK_V2.with(Router.BIASED_GROUPS);

    /** gpt-oss: weights of the best scores alone, experts with biases and bounds. Source: transformers/models/gpt_oss. */
    static final Mixture GPT_OSS = new Mixture(
            "mlp",
            Expert.CLAMPED,
            List.of("num_local_experts", "num_experts"),
            "intermediate_size",
            Router.BEST_SCORES,
            Shared.NONE,
            Layers.ALL);

    /** Llama 4: one expert for each token, which reads it times the sigmoid of its score; a shared one. Source: transformers/models/llama4. */
    static final Mixture LLAMA4 = new Mixture(
            "feed_forward",
            Expert.HALVES,
            List.of("num_local_experts", "num_experts"),
            "intermediate_size",
            Router.BEFORE,
            Shared.SAME,
            Layers.INTERLEAVED);

    private Mixture with(Shared other) {
        return new Mixture(block, expert, counts, inner, router, other, layers);
    }

    private Mixture with(Router other) {
        return new Mixture(block, expert, counts, inner, other, shared, layers);
    }

    /** What an expert computes, and what its Linears are called. */
    enum Expert {
        /** A gated MLP of {@code w1}, {@code w3} and {@code w2}. */
        MIXTRAL,
        /** A gated MLP of {@code gate_proj}, {@code up_proj} and {@code down_proj}. */
        GATED,
        /**
         * {@code down((clamp(u) + 1) * clamp(g) * sigmoid(1.702 * clamp(g)))} with biases; g and u are the even and the odd outputs of one Linear.
         * Files have the weights of all experts in one tensor, {@code [experts, in, out]}.
         */
        CLAMPED,
        /**
         * A gated MLP; gate and up are the halves of one Linear. Files have the weights of all experts in one tensor, {@code [experts, in, out]}.
         */
        HALVES;

        /** Whether files have the weights of all experts in one tensor, {@code [experts, in, out]}. */
        boolean isFused() {
            return this == CLAMPED || this == HALVES;
        }

        /** The Linear that goes through the activation. */
        String gate() {
            return this == MIXTRAL ? "w1" : "gate_proj";
        }

        /** The one it is multiplied with. */
        String up() {
            return this == MIXTRAL ? "w3" : "up_proj";
        }

        /** The one behind. */
        String down() {
            return this == MIXTRAL ? "w2" : "down_proj";
        }
    }

    /** Which experts a token gets, and with which weights. */
    enum Router {
        /** Those of the highest probability; the probabilities are divided by their sum. */
        NORMALISED,
        /** The same where {@code norm_topk_prob} is true; otherwise the probabilities are the weights. */
        CONFIGURED,
        /**
         * The probabilities are the weights, times {@code routed_scaling_factor}. With {@code topk_method} {@code group_limited_greedy} experts
         * compete in the {@code topk_group} of {@code n_group} groups whose best expert is best.
         */
        GROUPS,
        /**
         * Sigmoids instead of probabilities. A stored bias is added for the choice alone, in the groups whose two best add up to most; weights add up to
         * one where {@code norm_topk_prob} is true, times {@code routed_scaling_factor}.
         */
        BIASED_GROUPS,
        /** Those of the highest score; the weights are probabilities among these alone. The router is called {@code router} and has a bias. */
        BEST_SCORES,
        /** That of the highest score, whose sigmoid multiplies what the expert reads. The router is called {@code router}. */
        BEFORE;

        /** What the module is called in the block. */
        String module() {
            return this == BEST_SCORES || this == BEFORE ? "router" : "gate";
        }
    }

    /** Experts that compute for all tokens. */
    enum Shared {
        NONE,
        /** One of {@code shared_expert_intermediate_size}, times the sigmoid of a Linear's only output. */
        GATED,
        /** One as wide as {@code n_shared_experts} experts. */
        PLAIN,
        /** One like the others, called {@code shared_expert}. */
        SAME
    }

    /** Layers with the mixture. */
    enum Layers {
        ALL,
        /** Every {@code decoder_sparse_step}-th, but for {@code mlp_only_layers}. */
        STEPS,
        /** From {@code first_k_dense_replace} on. */
        UPPER,
        /** Those of {@code moe_layers}, or every {@code interleave_moe_layer_step}-th; others are {@code intermediate_size_mlp} wide. */
        INTERLEAVED
    }

    /** Whether the layer of this index has the mixture. */
    boolean isIn(HfConfig config, int layer) {
        return switch (layers) {
            case ALL -> true;
            case STEPS ->
                (layer + 1) % config.sizeOr(1, "decoder_sparse_step") == 0
                        && !isListed(config, "mlp_only_layers", layer);
            case UPPER -> layer >= config.count("first_k_dense_replace").orElse(0);
            case INTERLEAVED ->
                config.json().path("moe_layers").isArray()
                        ? isListed(config, "moe_layers", layer)
                        : (layer + 1) % config.sizeOr(1, "interleave_moe_layer_step") == 0;
        };
    }

    /** Where the configuration has the elements of a token within the MLP of other layers. */
    String denseInner() {
        return layers == Layers.INTERLEAVED ? "intermediate_size_mlp" : "intermediate_size";
    }

    private static boolean isListed(HfConfig config, String key, int layer) {
        for (JsonNode listed : config.json().path(key)) {
            if (listed.isIntegralNumber() && listed.longValue() == layer) {
                return true;
            }
        }
        return false;
    }

    /** Number of experts. */
    int experts(HfConfig config) {
        return config.size(counts.toArray(String[]::new));
    }

    /** How many of them a token gets. */
    int active(HfConfig config) {
        int active =
                router == Router.BEFORE ? config.sizeOr(1, "num_experts_per_tok") : config.size("num_experts_per_tok");
        if (router == Router.BEFORE && active != 1) {
            throw config.unsupported("num_experts_per_tok", Integer.toString(active), "1");
        }
        int experts = experts(config);
        if (active > experts) {
            throw config.malformed("num_experts_per_tok " + active + " is more than the " + experts + " experts");
        }
        return active;
    }

    /** Elements of a token within the shared expert; empty without one. */
    Optional<Integer> sharedInner(HfConfig config) {
        return switch (shared) {
            case NONE -> Optional.empty();
            case GATED -> Optional.of(config.size("shared_expert_intermediate_size"));
            case SAME -> Optional.of(config.size(inner));
            case PLAIN -> config.count("n_shared_experts").filter(n -> n > 0).map(n -> n * config.size(inner));
        };
    }
}
