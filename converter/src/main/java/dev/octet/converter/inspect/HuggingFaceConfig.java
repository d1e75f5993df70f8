package dev.octet.converter.inspect;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.error.MalformedModelException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/** The {@code config.json} that Hugging Face folders keep beside their tensors, as far as it speaks of quantisation. */
record HuggingFaceConfig(JsonNode json) {
    /** Far more than any real configuration; keeps a hostile file from filling the heap. */
    static final long MAX_CONFIG_BYTES = 16L << 20;

    /**
     * The configuration in the folder {@code path}; empty when {@code path} is no folder or has none.
     *
     * @throws MalformedModelException when it is not JSON
     */
    static Optional<HuggingFaceConfig> beside(Path path) throws IOException {
        Path file = path.resolve("config.json");
        if (!Files.isDirectory(path) || !Files.isRegularFile(file)) {
            return Optional.empty();
        }
        if (Files.size(file) > MAX_CONFIG_BYTES) {
            throw new MalformedModelException(
                    "config.json has " + Files.size(file) + " bytes, at most " + MAX_CONFIG_BYTES + " are read",
                    file.toString(),
                    "put the model's own config.json there");
        }
        try {
            return Optional.of(new HuggingFaceConfig(new ObjectMapper().readTree(file.toFile())));
        } catch (JsonProcessingException e) {
            throw new MalformedModelException(
                    "config.json is not JSON: " + e.getOriginalMessage(),
                    file + ", line " + e.getLocation().getLineNr(),
                    "download or export the folder again",
                    e);
        }
    }

    /** Everything under {@code quantization_config}, by dotted name. */
    Map<String, String> quantization() {
        Map<String, String> settings = new TreeMap<>();
        flatten("quantization_config", json.path("quantization_config"), settings);
        return settings;
    }

    private static void flatten(String name, JsonNode node, Map<String, String> into) {
        if (node.isObject()) {
            node.properties().forEach(p -> flatten(name + "." + p.getKey(), p.getValue(), into));
        } else if (!node.isMissingNode() && !node.isNull()) {
            into.put(name, node.isTextual() ? node.asText() : node.toString());
        }
    }
}
