package dev.octet.converter.hf;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.function.IntPredicate;

/** Which layers of a decoder have rotary positions, and which have a base of their own. */
enum RotatedLayers {
    /** All, by the same angles. */
    ALL {
        @Override
        IntPredicate rotate(HfConfig config, IntPredicate windowed) {
            return layer -> true;
        }
    },
    /** All but those of {@code no_rope_layers} that are 0, or else each {@code no_rope_layer_interval}th (SmolLM3Config). */
    LISTED {
        @Override
        IntPredicate rotate(HfConfig config, IntPredicate windowed) {
            JsonNode list = config.json().path("no_rope_layers");
            if (!list.isArray() || list.isEmpty()) {
                int interval = config.sizeOr(4, "no_rope_layer_interval");
                return layer -> (layer + 1) % interval != 0;
            }
            if (list.size() < config.layers("num_hidden_layers")) {
                throw config.malformed("no_rope_layers has " + list.size() + " entries, num_hidden_layers is "
                        + config.layers("num_hidden_layers"));
            }
            return layer -> list.get(layer).asInt() != 0;
        }
    },
    /** Those that see a window (Cohere2). */
    WINDOWED {
        @Override
        IntPredicate rotate(HfConfig config, IntPredicate windowed) {
            return windowed;
        }
    },
    /** All; those that see a window by angles of their own (Gemma 3). */
    TWO_BASES {
        @Override
        IntPredicate rotate(HfConfig config, IntPredicate windowed) {
            return layer -> true;
        }

        @Override
        boolean hasLocalBase() {
            return true;
        }

        @Override
        HfConfig global(HfConfig config) {
            JsonNode nested = config.json().path("rope_parameters").path("full_attention");
            return nested instanceof ObjectNode own ? with(config, own) : config;
        }

        @Override
        HfConfig local(HfConfig config) {
            JsonNode nested = config.json().path("rope_parameters").path("sliding_attention");
            ObjectNode own = nested instanceof ObjectNode o
                    ? o.deepCopy()
                    : config.json().objectNode().put("rope_type", "default");
            if (!own.hasNonNull("rope_theta")) {
                own.put("rope_theta", config.positive(RotaryAngles.DEFAULT_THETA, "rope_local_base_freq"));
            }
            return with(config, own);
        }

        private static HfConfig with(HfConfig config, ObjectNode rope) {
            ObjectNode json = config.json().deepCopy();
            json.set("rope_parameters", rope);
            return new HfConfig(json, config.where());
        }
    };

    /**
     * Which layers rotate.
     *
     * @param windowed which see a window
     */
    abstract IntPredicate rotate(HfConfig config, IntPredicate windowed);

    /** Whether layers that see a window have angles of their own, of {@link #local}. */
    boolean hasLocalBase() {
        return false;
    }

    /** The configuration as it is for the angles of layers that see everything. */
    HfConfig global(HfConfig config) {
        return config;
    }

    /** The configuration as it is for the angles of layers that see a window. */
    HfConfig local(HfConfig config) {
        return config;
    }
}
