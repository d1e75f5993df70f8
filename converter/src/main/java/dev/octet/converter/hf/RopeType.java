package dev.octet.converter.hf;

import com.fasterxml.jackson.databind.JsonNode;
import dev.octet.converter.hf.RotaryAngles.Beyond;
import java.util.Arrays;
import java.util.Locale;
import java.util.stream.Collectors;

/**
 * How frequencies of rotary positions are rescaled for longer texts: {@code rope_type}. Numbers are computed in F32 where torch does. Source:
 * transformers/modeling_rope_utils.py.
 */
enum RopeType {
    DEFAULT {
        @Override
        RotaryAngles angles(Parameters p) {
            return RotaryAngles.fixed(RotaryAngles.frequencies(p.theta, p.rotated), p.rotated);
        }
    },
    /** All waves are stretched by {@code factor}. */
    LINEAR {
        @Override
        RotaryAngles angles(Parameters p) {
            float[] f = RotaryAngles.frequencies(p.theta, p.rotated);
            return RotaryAngles.fixed(divided(f, p.number("factor")), p.rotated);
        }
    },
    /**
     * The first {@code partial_rotary_factor} of the pairs turn by the frequencies of a whole head, the others not at all; then as
     * {@link #LINEAR}.
     */
    PROPORTIONAL {
        @Override
        RotaryAngles angles(Parameters p) {
            float[] f = RotaryAngles.frequencies(p.theta, p.size);
            Arrays.fill(f, p.rotated / 2, f.length, 0);
            return RotaryAngles.fixed(divided(f, p.rope.positive(1, "factor")), p.size);
        }
    },
    /** The base grows with the text, from {@code max_position_embeddings} on (neural tangent kernels). */
    DYNAMIC {
        @Override
        RotaryAngles angles(Parameters p) {
            if (p.rotated < 4) {
                throw p.config.malformed("rope_type dynamic needs two pairs of elements to rotate at least");
            }
            return new RotaryAngles(
                    RotaryAngles.frequencies(p.theta, p.rotated),
                    p.rotated,
                    1,
                    new Beyond.GrowingTheta(p.config.size("max_position_embeddings"), p.number("factor")));
        }
    },
    /** Long waves are stretched, short ones stay, a ramp over the pairs lies between (Peng et al. 2023, arXiv:2309.00071). */
    YARN {
        @Override
        RotaryAngles angles(Parameters p) {
            return YarnScaling.of(p).angles(p.theta, p.rotated);
        }
    },
    /** Each wave has a factor of its own, another one in texts longer than the original length (Ding et al. 2024, arXiv:2402.13753). */
    LONGROPE {
        @Override
        RotaryAngles angles(Parameters p) {
            int original = p.originalLength();
            double factor = p.factor();
            double fallback = factor <= 1 ? 1 : Math.sqrt(1 + Math.log(factor) / Math.log(original));
            return new RotaryAngles(
                    factored(p, "short_factor"),
                    p.rotated,
                    (float) p.rope.positive(fallback, "attention_factor"),
                    new Beyond.Others(original, factored(p, "long_factor")));
        }

        private static float[] factored(Parameters p, String key) {
            JsonNode factors = p.rope.json().path(key);
            if (!factors.isArray() || factors.size() != p.rotated / 2) {
                throw p.config.malformed("rope_type longrope needs " + p.rotated / 2 + " numbers as " + key);
            }
            float[] f = new float[p.rotated / 2];
            for (int i = 0; i < f.length; i++) {
                float wave = (float) Math.pow((float) p.theta, (float) (2 * i) / p.rotated);
                f[i] = 1 / ((float) p.rope.positive(factors.get(i), key) * wave);
            }
            return f;
        }
    },
    /** Long waves are stretched, short ones stay, those between are blended by their length (Llama 3.1). */
    LLAMA3 {
        @Override
        RotaryAngles angles(Parameters p) {
            float[] f = RotaryAngles.frequencies(p.theta, p.rotated);
            llama3(f, p);
            return RotaryAngles.fixed(f, p.rotated);
        }
    };

    /** Names of the types, for messages. */
    static final String KNOWN = Arrays.stream(values()).map(RopeType::text).collect(Collectors.joining(", "));

    /**
     * What a type is computed from.
     *
     * @param rope {@code rope_parameters} or {@code rope_scaling}
     * @param config the model's
     * @param theta base
     * @param size elements of a head
     * @param rotated those of them that turn
     */
    record Parameters(HfConfig rope, HfConfig config, double theta, int size, int rotated) {
        private double number(String key) {
            return rope.positive(rope.json().path(key), "rope_parameters." + key);
        }

        /** The length that the model was trained with before its positions were stretched. */
        int originalLength() {
            return config.optionalSize("original_max_position_embeddings")
                    .or(() -> rope.optionalSize("original_max_position_embeddings"))
                    .orElseGet(() -> config.size("max_position_embeddings"));
        }

        /** By which texts are longer. */
        double factor() {
            return rope.json().hasNonNull("factor")
                    ? number("factor")
                    : (double) config.size("max_position_embeddings") / originalLength();
        }
    }

    /** @throws dev.octet.formats.error.OctetException when a number is missing or absurd */
    abstract RotaryAngles angles(Parameters p);

    /** As configurations write it. */
    String text() {
        return name().toLowerCase(Locale.ROOT);
    }

    /** @throws dev.octet.formats.error.UnsupportedModelException for one that is not known; lists those that are */
    static RopeType of(String text, HfConfig config) {
        return Arrays.stream(values())
                .filter(t -> t.text().equals(text))
                .findFirst()
                .orElseThrow(() -> config.unsupported("rope_type", text, KNOWN));
    }

    private static float[] divided(float[] frequencies, double factor) {
        for (int i = 0; i < frequencies.length; i++) {
            frequencies[i] /= (float) factor;
        }
        return frequencies;
    }

    /** Rescales plain frequencies in place. */
    static void llama3(float[] frequencies, Parameters p) {
        double factor = p.number("factor");
        double low = p.number("low_freq_factor");
        double high = p.number("high_freq_factor");
        double length = p.originalLength();
        if (high <= low) {
            throw p.config.malformed("high_freq_factor " + high + " is not above low_freq_factor " + low);
        }
        for (int i = 0; i < frequencies.length; i++) {
            float f = frequencies[i];
            float wave = (float) (2 * Math.PI) / f;
            if (wave > length / low) {
                frequencies[i] = f / (float) factor;
            } else if (wave >= length / high) {
                float smooth = ((float) length / wave - (float) low) / (float) (high - low);
                float stretched = f / (float) factor;
                frequencies[i] = (1 - smooth) * stretched + smooth * f;
            }
        }
    }
}
