package dev.octet.converter.data;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.file.JsonFault;
import java.io.CharConversionException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/**
 * The token that ends a text. A {@code tokenizer.json} does not say which token that is; the files next to it do: {@code eos_token} of {@code
 * tokenizer_config.json} or of {@code special_tokens_map.json}, {@code eos_token_id} of {@code config.json}, whichever comes first.
 */
final class EndOfText {
    private static final List<String> NAMING = List.of("tokenizer_config.json", "special_tokens_map.json");
    private static final String CONFIG = "config.json";
    private static final String KEY = "data: {eos: TOKEN}";

    private EndOfText() {}

    /**
     * The id of the token.
     *
     * @param named the token as the user names it; empty to look in the files next to the tokenizer
     * @throws InvalidOptionException when the tokenizer has no such token, or nothing says which one it is
     * @throws IOException when a file cannot be read
     */
    static long of(Path tokenizerJson, TokenizerVocabulary vocabulary, Optional<String> named) throws IOException {
        if (named.isPresent()) {
            return vocabulary
                    .id(named.get())
                    .orElseThrow(() -> new InvalidOptionException(
                            "the tokenizer has no token '" + named.get() + "'",
                            KEY + ", " + tokenizerJson,
                            "name a token of this tokenizer; its added_tokens list the special ones"));
        }
        for (String name : NAMING) {
            OptionalLong id = token(tokenizerJson.resolveSibling(name))
                    .map(vocabulary::id)
                    .orElse(OptionalLong.empty());
            if (id.isPresent()) {
                return id.getAsLong();
            }
        }
        OptionalLong id = number(tokenizerJson.resolveSibling(CONFIG));
        if (id.isPresent()) {
            return id.getAsLong();
        }
        throw new InvalidOptionException(
                "no file names the token that ends a text",
                tokenizerJson + ", and " + String.join(", ", NAMING) + ", " + CONFIG + " next to it",
                "add " + KEY + ", such as eos: \"<|endoftext|>\"");
    }

    private static Optional<String> token(Path file) throws IOException {
        JsonNode eos = read(file).path("eos_token");
        JsonNode text = eos.isObject() ? eos.path("content") : eos;
        return text.isTextual() ? Optional.of(text.asText()) : Optional.empty();
    }

    private static OptionalLong number(Path file) throws IOException {
        JsonNode eos = read(file).path("eos_token_id");
        JsonNode first = eos.isArray() ? eos.path(0) : eos;
        return first.isIntegralNumber() ? OptionalLong.of(first.asLong()) : OptionalLong.empty();
    }

    private static JsonNode read(Path file) throws IOException {
        ObjectMapper json = new ObjectMapper();
        if (!Files.isRegularFile(file)) {
            return json.createObjectNode();
        }
        byte[] bytes = Files.readAllBytes(file);
        try {
            return json.readTree(bytes);
        } catch (JsonProcessingException e) {
            JsonFault fault = JsonFault.of(e, bytes);
            throw notJson(fault.what(), fault.in(file.toString()), e);
        } catch (CharConversionException e) { // from Jackson, for bytes that look like UTF-32 but are not
            throw notJson(e.getMessage(), file.toString(), e);
        }
    }

    private static InvalidDataException notJson(@Nullable String why, String where, IOException cause) {
        return new InvalidDataException("not JSON: " + why, where, "restore the file, or remove it", cause);
    }
}
