package dev.octet.converter.hf;

import com.fasterxml.jackson.databind.node.ObjectNode;

/** Where a family's configuration names the activation of the MLP. */
public enum MlpActivation {
    /** {@code hidden_act}, {@code silu} where it is absent. */
    SILU("hidden_act") {
        @Override
        String of(HfConfig config) {
            return Activations.of(config, key(), "silu");
        }

        @Override
        String name(String seen) {
            return seen;
        }
    },
    /**
     * {@code hidden_activation}, or else {@code hidden_act}, whose {@code gelu} means {@value #TANH} in the first files of Gemma
     * (transformers/models/gemma/configuration_gemma.py); {@value #TANH} where both are absent.
     */
    GEMMA("hidden_act") {
        @Override
        String of(HfConfig config) {
            String old = Activations.of(config, "hidden_act", TANH);
            return Activations.of(config, "hidden_activation", old.equals("gelu") ? TANH : old);
        }

        @Override
        String name(String seen) {
            return seen.equals("gelu_new") ? TANH : seen;
        }
    };

    /** GELU by its tangent approximation. */
    public static final String TANH = "gelu_pytorch_tanh";

    private final String key;

    MlpActivation(String key) {
        this.key = key;
    }

    /** The key that a restored configuration gets. */
    String key() {
        return key;
    }

    /** The activation by transformers' name. */
    abstract String of(HfConfig config);

    /**
     * The activation by transformers' name.
     *
     * @param where the configuration, for messages
     * @throws dev.octet.formats.error.UnsupportedModelException for one that is not known
     */
    public String of(ObjectNode config, String where) {
        return of(new HfConfig(config, where));
    }

    /** How the family's configurations write an activation that was seen in a graph. */
    abstract String name(String seen);
}
