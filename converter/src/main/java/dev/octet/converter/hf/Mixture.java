package dev.octet.converter.hf;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import java.util.Optional;

/**
 * The mixture of experts that a family of decoders has in place of an MLP: several MLPs, of which a router chooses some for each token.
 * {@link ExpertBlock} builds its graph.
 *
 * @param block what the module is called, {@code block_sparse_moe} of {@code model.layers.0.block_sparse_moe}
 * @param gate the Linear of an expert that goes through the activation
 * @param up the one it is multiplied with
 * @param down the one behind
 * @param counts where configurations have the number of experts, which transformers calls now so, now so
 * @param inner where it has the elements of a token within an expert
 * @param router how experts are chosen
 * @param shared what computes for all tokens besides
 * @param layers which layers have the mixture; others have an MLP
 */
record Mixture(
        String block,
        String gate,
        String up,
        String down,
        List<String> counts,
        String inner,
        Router router,
        Shared shared,
        Layers layers) {
    Mixture {
        counts = List.copyOf(counts);
    }

    /** Mixtral: weights of the chosen experts add up to one, in all layers. Source: transformers/models/mixtral. */
    static final Mixture MIXTRAL = new Mixture(
            "block_sparse_moe",
            "w1",
            "w3",
            "w2",
            List.of("num_local_experts", "num_experts"),
            "intermediate_size",
            Router.NORMALISED,
            Shared.NONE,
            Layers.ALL);

    /** Qwen2-MoE: small experts, and a shared one behind a gate. Source: transformers/models/qwen2_moe. */
    static final Mixture QWEN2 = new Mixture(
            "mlp",
            "gate_proj",
            "up_proj",
            "down_proj",
            List.of("num_experts", "num_local_experts"),
            "moe_intermediate_size",
            Router.CONFIGURED,
            Shared.GATED,
            Layers.STEPS);

    /** Qwen3-MoE: that without a shared expert. Source: transformers/models/qwen3_moe. */
    static final Mixture QWEN3 = QWEN2.with(Shared.NONE);

    private Mixture with(Shared other) {
        return new Mixture(block, gate, up, down, counts, inner, router, other, layers);
    }

    /** Which experts a token gets, and with which weights. */
    enum Router {
        /** Those of the highest probability; the probabilities are divided by their sum. */
        NORMALISED,
        /** The same where {@code norm_topk_prob} is true; otherwise the probabilities are the weights. */
        CONFIGURED
    }

    /** Experts that compute for all tokens. */
    enum Shared {
        NONE,
        /** One of {@code shared_expert_intermediate_size}, times the sigmoid of a Linear's only output. */
        GATED
    }

    /** Layers with the mixture. */
    enum Layers {
        ALL,
        /** Every {@code decoder_sparse_step}-th, but for {@code mlp_only_layers}. */
        STEPS
    }

    /** Whether the layer of this index has the mixture. */
    boolean isIn(HfConfig config, int layer) {
        return switch (layers) {
            case ALL -> true;
            case STEPS -> (layer + 1) % config.sizeOr(1, "decoder_sparse_step") == 0 && !isDense(config, layer);
        };
    }

    private static boolean isDense(HfConfig config, int layer) {
        for (JsonNode dense : config.json().path("mlp_only_layers")) {
            if (dense.isIntegralNumber() && dense.longValue() == layer) {
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
        int active = config.size("num_experts_per_tok");
        int experts = experts(config);
        if (active > experts) {
            throw config.malformed("num_experts_per_tok " + active + " is more than the " + experts + " experts");
        }
        return active;
    }

    /** Whether the router's weights add up to one. */
    boolean normalises(HfConfig config) {
        return switch (router) {
            case NORMALISED -> true;
            case CONFIGURED -> config.flag(false, "norm_topk_prob");
        };
    }

    /** Elements of a token within the shared expert; empty without one. */
    Optional<Integer> sharedInner(HfConfig config) {
        return switch (shared) {
            case NONE -> Optional.empty();
            case GATED -> Optional.of(config.size("shared_expert_intermediate_size"));
        };
    }

    /** The Linears of an expert in the order in which a token meets them. */
    List<String> projections() {
        return List.of(gate, up, down);
    }
}
