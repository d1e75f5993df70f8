package dev.octet.converter.hf;

import com.fasterxml.jackson.databind.JsonNode;
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
    /**
     * Reads the parameters.
     *
     * @param rope {@code rope_parameters} or {@code rope_scaling}
     * @throws dev.octet.formats.error.MalformedModelException when a number is absurd
     */
    static YarnScaling of(HfConfig rope, HfConfig config) {
        double length = RopeType.originalLength(rope, config);
        double factor = number(rope, "factor").orElseGet(() -> config.size("max_position_embeddings") / length);
        double attention = number(rope, "attention_factor").orElseGet(() -> {
            Optional<Double> one = number(rope, "mscale");
            Optional<Double> all = number(rope, "mscale_all_dim");
            return one.isPresent() && all.isPresent()
                    ? magnitude(factor, one.get()) / magnitude(factor, all.get())
                    : magnitude(factor, 1);
        });
        return new YarnScaling(
                factor,
                length,
                number(rope, "beta_fast").orElse(32.0),
                number(rope, "beta_slow").orElse(1.0),
                rope.flag(true, "truncate"),
                attention);
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
        Optional<HfConfig> rope = config.object("rope_parameters")
                .or(() -> config.object("rope_scaling"))
                .map(r -> new HfConfig(r, config.where()));
        if (rope.isEmpty() || rope.get().text("default", "rope_type", "type").equals("default")) {
            return 1;
        }
        double m = number(rope.get(), "mscale_all_dim")
                .map(all -> magnitude(number(rope.get(), "factor").orElse(1.0), all))
                .orElse(1.0);
        return m * m;
    }

    /**
     * Stretches the frequencies.
     *
     * @return what cosines and sines are multiplied with
     */
    float apply(float[] frequencies, double theta) {
        int rotated = 2 * frequencies.length;
        double low = bound(fast, rotated, theta);
        double high = bound(slow, rotated, theta);
        if (truncate) {
            low = Math.floor(low);
            high = Math.ceil(high);
        }
        double from = Math.max(low, 0);
        double to = Math.min(high, rotated - 1);
        float width = (float) (from == to ? 0.001 : to - from); // torch subtracts Python's numbers
        for (int i = 0; i < frequencies.length; i++) {
            float ramp = Math.clamp((i - (float) from) / width, 0, 1);
            float stretched = frequencies[i] / (float) factor;
            frequencies[i] = stretched * ramp + frequencies[i] * (1 - ramp);
        }
        return (float) attention;
    }

    /** The pair that turns so often within the length. */
    private double bound(double turns, int rotated, double theta) {
        return rotated * Math.log(length / (turns * 2 * Math.PI)) / (2 * Math.log(theta));
    }
}
