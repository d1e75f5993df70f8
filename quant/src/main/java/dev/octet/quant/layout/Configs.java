package dev.octet.quant.layout;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** Where a {@code config.json} says how its model is quantised. */
final class Configs {
    private Configs() {}

    /**
     * The object under {@code quantization_config}, or under its older name {@code compression_config}; in models of several parts that
     * of the text model counts when the whole has none.
     */
    static Optional<ObjectNode> quantization(@Nullable ObjectNode config) {
        if (config == null) {
            return Optional.empty();
        }
        return object(config.path("quantization_config"))
                .or(() -> object(config.path("compression_config")))
                .or(() -> object(config.path("text_config").path("quantization_config")))
                .or(() -> object(config.path("llm_config").path("quantization_config")));
    }

    /** Its {@code quant_method}, lower case; empty when absent. */
    static String method(ObjectNode quantization) {
        return quantization.path("quant_method").asText("").toLowerCase(Locale.ROOT);
    }

    static Optional<ObjectNode> object(JsonNode node) {
        return node instanceof ObjectNode object ? Optional.of(object) : Optional.empty();
    }

    /** The texts of a list; empty for anything else. */
    static List<String> texts(JsonNode list) {
        List<String> texts = new ArrayList<>();
        if (list.isArray()) {
            list.forEach(n -> texts.add(n.asText()));
        }
        return texts;
    }
}
