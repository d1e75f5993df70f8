package dev.octet.converter.hf;

import com.fasterxml.jackson.databind.JsonNode;
import dev.octet.converter.hf.RotaryAngles.Beyond;
import java.util.Optional;

/**
 * Rotary angles stretched as YaRN does (Peng et al. 2023, arXiv:2309.00071): pairs that turn slowly within the original length are interpolated, fast ones stay,
 * those between are blended; and cosines and sines get a factor. Source: transformers/modeling_rope_utils.py, _compute_yarn_parameters.
 *
 * @param factor by which texts are longer
 * @param length that the model was made for first
 * @param fast turns within the length from which pairs stay
 * @param slow turns up to which they are interpolated
 * @param truncate whether the bounds are rounded to whole pairs
 * @param attention what cosines and sines are multiplied with
 */
record YarnScaling(double factor, double length, double fast, double slow, boolean truncate, double attention) {
    /** @throws dev.octet.formats.error.MalformedModelException when a number is absurd */
    static YarnScaling of(RopeType.Parameters p) {
        HfConfig rope = p.rope();
        double factor = p.factor();
        Optional<Double> one = number(rope, "mscale");
        Optional<Double> all = number(rope, "mscale_all_dim");
        double fallback = one.isPresent() && all.isPresent()
                ? magnitude(factor, one.get()) / magnitude(factor, all.get())
                : magnitude(factor, 1);
        return new YarnScaling(
                factor,
                p.originalLength(),
                number(rope, "beta_fast").orElse(32.0),
                number(rope, "beta_slow").orElse(1.0),
                rope.flag(true, "truncate"),
                rope.positive(fallback, "attention_factor"));
    }

    /** A number; empty where it is absent, null or 0, which Python takes for absent. */
    private static Optional<Double> number(HfConfig rope, String key) {
        JsonNode value = rope.json().path(key);
        return value.isMissingNode() || value.isNull() || (value.isNumber() && value.doubleValue() == 0)
                ? Optional.empty()
                : Optional.of(rope.positive(value, key));
    }

    /** {@code 0.1 m ln(scale) + 1}; 1 for texts that are no longer. */
    static double magnitude(double scale, double m) {
        return scale <= 1 ? 1 : 0.1 * m * Math.log(scale) + 1;
    }

    /**
     * What scores are multiplied with in models that have {@code mscale_all_dim} (DeepSeek): the square of its magnitude; 1 without.
     *
     * @param config whose {@code rope_parameters} or {@code rope_scaling} are read
     */
    static double ofScores(HfConfig config) {
        HfConfig rope = RotaryAngles.parameters(config);
        if (rope.text("default", "rope_type", "type").equals("default")) {
            return 1;
        }
        double m = number(rope, "mscale_all_dim")
                .map(all -> magnitude(number(rope, "factor").orElse(1.0), all))
                .orElse(1.0);
        return m * m;
    }

    /**
     * The angles of heads of which {@code rotated} elements turn.
     *
     * @param theta base
     */
    RotaryAngles angles(double theta, int rotated) {
        double low = pair(fast, theta, rotated);
        double high = pair(slow, theta, rotated);
        if (truncate) {
            low = Math.floor(low);
            high = Math.ceil(high);
        }
        low = Math.max(low, 0);
        high = Math.min(high, rotated - 1);
        float width = (float) (low == high ? 0.001 : high - low);
        float[] f = new float[rotated / 2];
        for (int i = 0; i < f.length; i++) {
            float wave = (float) Math.pow((float) theta, (float) (2 * i) / rotated);
            float ramp = Math.clamp((i - (float) low) / width, 0, 1);
            float kept = 1 - ramp;
            f[i] = 1 / ((float) factor * wave) * (1 - kept) + 1 / wave * kept;
        }
        return new RotaryAngles(f, rotated, (float) attention, Beyond.Same.INSTANCE);
    }

    /** The pair, between whole numbers, whose wave fits {@code turns} times into the length. */
    private double pair(double turns, double theta, int rotated) {
        return rotated * Math.log(length / (turns * 2 * Math.PI)) / (2 * Math.log(theta));
    }
}
