package dev.octet.converter.data;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.error.InvalidDataException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/**
 * Finds contradictions in a {@code tokenizer.json} that make tokenizers 0.21 end the process instead of refusing the file:
 *
 * <ol>
 *   <li>a template names a special token that its table lacks (processors/template.rs);
 *   <li>a BPE merge is shorter than the prefix that is cut off it, or the cut splits a letter (models/bpe/model.rs);
 *   <li>a normalizer in a sequence prepends or replaces an empty string, which shifts the alignment for the next normalizer
 *       (tokenizer/normalizer.rs).
 * </ol>
 *
 * <p>Found by fuzzing ten tokenizers with 20,000 random changes. Regular expressions whose search never ends have the same effect, but
 * cannot be detected in the file; see {@link TokenizerTrial}.
 */
final class TokenizerContradictions {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Path path;

    private TokenizerContradictions(Path path) {
        this.path = path;
    }

    /**
     * Checks a tokenizer file. Malformed JSON passes, because the library refuses it.
     *
     * @throws InvalidDataException when the file has such a contradiction
     */
    static void check(byte[] json, Path path) throws IOException {
        JsonNode root;
        try {
            root = JSON.readTree(json);
        } catch (JsonProcessingException e) {
            return;
        }
        TokenizerContradictions contradictions = new TokenizerContradictions(path);
        contradictions.processor(root.path("post_processor"), "post_processor");
        contradictions.merges(root.path("model"));
        contradictions.normalizer(root.path("normalizer"), "normalizer", false);
    }

    // case 1
    private void processor(JsonNode processor, String where) {
        int i = 0;
        for (JsonNode each : processor.path("processors")) {
            processor(each, where + ".processors[" + i++ + "]");
        }
        for (String template : new String[] {"single", "pair"}) {
            for (JsonNode piece : processor.path(template)) {
                JsonNode id = piece.path("SpecialToken").path("id");
                if (id.isTextual() && !processor.path("special_tokens").has(id.textValue())) {
                    throw refusal(
                            "the template names the special token '" + id.textValue()
                                    + "', which its special_tokens do not have",
                            where + "." + template);
                }
            }
        }
    }

    // case 2
    private void merges(JsonNode model) {
        int prefix = utf8(model.path("continuing_subword_prefix").asText("")).length;
        if (prefix == 0 || model.path("continuing_subword_prefix").isNull()) {
            return;
        }
        int i = 0;
        for (JsonNode merge : model.path("merges")) {
            String[] parts = merge.isTextual() ? merge.textValue().split(" ", 2) : null;
            String second = parts == null ? merge.path(1).asText("") : parts[parts.length - 1];
            byte[] bytes = utf8(second);
            boolean insideLetter = prefix < bytes.length && (bytes[prefix] & 0xC0) == 0x80;
            if (bytes.length < prefix || insideLetter) {
                throw refusal(
                        "the merge of '" + second + "' does not begin with the continuing_subword_prefix",
                        "model.merges[" + i + "]");
            }
            i++;
        }
    }

    // case 3
    private void normalizer(JsonNode normalizer, String where, boolean inSequence) {
        int i = 0;
        for (JsonNode each : normalizer.path("normalizers")) {
            normalizer(each, where + ".normalizers[" + i++ + "]", true);
        }
        if (!inSequence) {
            return;
        }
        if (isEmpty(normalizer.path("prepend"))) {
            throw refusal("a normalizer prepends nothing", where + ".prepend");
        }
        JsonNode pattern = normalizer.path("pattern");
        if (isEmpty(pattern.path("Regex")) || isEmpty(pattern.path("String"))) {
            throw refusal("a normalizer replaces nothing", where + ".pattern");
        }
    }

    private static boolean isEmpty(JsonNode text) {
        return text.isTextual() && text.textValue().isEmpty();
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private InvalidDataException refusal(String what, String where) {
        return new InvalidDataException(
                what,
                path + ", " + where,
                "give the tokenizer.json that belongs to the model, as its library wrote it");
    }
}
