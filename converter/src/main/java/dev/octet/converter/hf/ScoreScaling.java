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
    /** As {@link #GEMMA2}, without bounds where none are given (Gemma3TextConfig). */
    GEMMA3 {
        @Override
        float scale(HfConfig config, int headSize) {
            return GEMMA2.scale(config, headSize);
        }

        @Override
        Optional<Float> scoreCap(HfConfig config) {
            return given(config, "attn_logit_softcapping");
        }

        @Override
        Optional<Float> logitCap(HfConfig config) {
            return given(config, "final_logit_softcapping");
        }
    },
    /** Scores are scaled by {@code attention_multiplier}, logits divided by {@code logits_scaling} (GraniteConfig). */
    GRANITE {
        @Override
        float scale(HfConfig config, int headSize) {
            return (float) config.positive(1, "attention_multiplier");
        }

        @Override
        float logitScale(HfConfig config) {
            return (float) (1 / config.positive(1, "logits_scaling"));
        }
    },
    /** Logits are multiplied by {@code logit_scale} (CohereConfig). */
    COHERE {
        @Override
        float scale(HfConfig config, int headSize) {
            return PLAIN.scale(config, headSize);
        }

        @Override
        float logitScale(HfConfig config) {
            return (float) config.positive(0.0625, "logit_scale");
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

    /** What logits are multiplied by. */
    float logitScale(HfConfig config) {
        return 1;
    }

    private static Optional<Float> given(HfConfig config, String key) {
        return config.json().hasNonNull(key) ? Optional.of((float) config.positive(1, key)) : Optional.empty();
    }

    /** {@code null} turns a cap off; an absent key does not. */
    private static Optional<Float> cap(HfConfig config, String key, double fallback) {
        return config.json().path(key).isNull()
                ? Optional.empty()
                : Optional.of((float) config.positive(fallback, key));
    }
}
