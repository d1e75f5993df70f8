package dev.octet.converter.generate;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.checkpoint.ModelConfig;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashSet;
import java.util.Set;

/** Tokens that end a text: {@code eos_token_id}, one number or several, of {@code generation_config.json} or else of {@code config.json}. */
public final class EndTokens {
    private static final String GENERATION = "generation_config.json";
    private static final String KEY = "eos_token_id";

    private EndTokens() {}

    /**
     * Those of a checkpoint; empty where no file names any.
     *
     * @param folder of the checkpoint
     * @param config its {@code config.json}
     * @throws dev.octet.formats.error.MalformedModelException when {@code generation_config.json} is no JSON object
     * @throws IOException when it cannot be read
     */
    public static Set<Long> of(Path folder, ObjectNode config) throws IOException {
        Path file = folder.resolve(GENERATION);
        if (Files.isRegularFile(file)) {
            Set<Long> own = in(ModelConfig.parse(Files.readString(file), file.toString()));
            if (!own.isEmpty()) {
                return own;
            }
        }
        return in(config);
    }

    private static Set<Long> in(JsonNode config) {
        JsonNode named = config.path(KEY);
        Set<Long> ends = new LinkedHashSet<>();
        if (named.isIntegralNumber()) {
            ends.add(named.longValue());
        }
        named.forEach(one -> {
            if (one.isIntegralNumber()) {
                ends.add(one.longValue());
            }
        });
        return ends;
    }
}
