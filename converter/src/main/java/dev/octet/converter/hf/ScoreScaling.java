package dev.octet.converter.hf;

import java.util.Optional;

/** What a family does with the scores of attention and with logits. */
enum ScoreScaling {
    /** Scores are scaled by {@code 1 / sqrt(head size)}. */
    PLAIN {
        @Override
        float scale(HfConfig config, int headSize) {
            return AttentionHeads.scale(headSize);
        }
    },
    /** The same, times what YaRN asks for (DeepSeek). */
    YARN {
        @Override
        float scale(HfConfig config, int headSize) {
            return (float) (1 / Math.sqrt(headSize) * YarnScaling.ofScores(config));
        }
    },
    /**
     * Scores are scaled by {@code 1 / sqrt(query_pre_attn_scalar)}; scores and logits x become {@code cap·tanh(x / cap)}. Defaults are those of
     * Gemma2Config.
     */
    GEMMA2 {
        @Override
        float scale(HfConfig config, int headSize) {
            return (float) (1 / Math.sqrt(config.positive(256, "query_pre_attn_scalar")));
        }

        @Override
        Optional<Float> scoreCap(HfConfig config) {
            return cap(config, "attn_logit_softcapping", 50);
        }

        @Override
        Optional<Float> logitCap(HfConfig config) {
            return cap(config, "final_logit_softcapping", 30);
        }
    };

    /** What products of q and k are multiplied by. */
    abstract float scale(HfConfig config, int headSize);

    /** Bound of the scaled scores; empty for none. */
    Optional<Float> scoreCap(HfConfig config) {
        return Optional.empty();
    }

    /** Bound of the logits; empty for none. */
    Optional<Float> logitCap(HfConfig config) {
        return Optional.empty();
    }

    /** {@code null} turns a cap off; an absent key does not. */
    private static Optional<Float> cap(HfConfig config, String key, double fallback) {
        return config.json().path(key).isNull()
                ? Optional.empty()
                : Optional.of((float) config.positive(fallback, key));
    }
}
