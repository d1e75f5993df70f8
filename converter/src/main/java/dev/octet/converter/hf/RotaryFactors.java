package dev.octet.converter.hf;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.error.UnsupportedModelException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * Rotary frequencies as other programs keep them: what the plain ones, {@code theta^(-2i/size)}, are divided by. In llama.cpp a tensor, in
 * transformers {@code rope_parameters}.
 */
public final class RotaryFactors {
    /** {@code rope_theta} of configurations without one. */
    public static final double DEFAULT_THETA = RotaryAngles.DEFAULT_THETA;

    private RotaryFactors() {}

    /**
     * The {@code rope_parameters} whose frequencies are the plain ones over these factors; empty where no known type with round numbers
     * gives them.
     *
     * @param size of a head
     * @param factors one for each pair of elements
     */
    public static Optional<ObjectNode> parameters(double theta, int size, float[] factors) {
        float[] plain = RotaryAngles.frequencies(theta, size);
        if (plain.length != factors.length) {
            return Optional.empty();
        }
        List<Float> frequencies = new ArrayList<>();
        for (int i = 0; i < plain.length; i++) {
            frequencies.add(plain[i] / factors[i]);
        }
        return RotaryAngles.parameters(frequencies, size);
    }

    /**
     * The factors of a configuration of type {@code llama3}; empty for others, whose frequencies follow from a number.
     *
     * @param size of a head
     * @param where the configuration, for messages
     * @throws dev.octet.formats.error.UnsupportedModelException for a rope_type other than default, linear and llama3
     * @throws dev.octet.formats.error.MalformedModelException when a key is missing or absurd
     */
    public static Optional<float[]> of(ObjectNode config, int size, String where) {
        RotaryAngles angles = RotaryAngles.of(new HfConfig(config, where), size);
        ObjectNode rope = (ObjectNode) Optional.of(config.path("rope_parameters"))
                .filter(r -> r.isObject())
                .orElse(config.path("rope_scaling").isObject() ? config.path("rope_scaling") : config);
        String type = rope.path("rope_type").asText(rope.path("type").asText("default"));
        switch (type) {
            case "default", "linear" -> {
                return Optional.empty();
            }
            case "llama3" -> {}
            default ->
                throw new UnsupportedModelException(
                        "rope_type '" + type + "' has no counterpart as factors of frequencies",
                        where,
                        "known are: default, linear, llama3");
        }
        double theta =
                rope.path("rope_theta").asDouble(config.path("rope_theta").asDouble(DEFAULT_THETA));
        float[] plain = RotaryAngles.frequencies(theta, size);
        float[] made = angles.frequencies();
        float[] factors = new float[plain.length];
        for (int i = 0; i < factors.length; i++) {
            factors[i] = plain[i] / made[i];
        }
        return Optional.of(factors);
    }
}
