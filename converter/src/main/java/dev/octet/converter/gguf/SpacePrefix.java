package dev.octet.converter.gguf;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;

/**
 * Whether SentencePiece's BPE puts a space before a text ({@code add_space_prefix}). In {@code tokenizer.json} spaces become {@value
 * TokenizerImport#SPACE} either in {@code normalizer} (Replace, maybe with Prepend) or in {@code pre_tokenizer} (Metaspace). Source: tokenizers,
 * pre_tokenizers/metaspace.rs and normalizers.
 */
final class SpacePrefix {
    private SpacePrefix() {}

    /** Of a {@code tokenizer.json}; empty where texts are changed or split in another way than llama.cpp's. */
    static Optional<Boolean> of(ObjectNode json) {
        JsonNode normalizer = json.path("normalizer");
        JsonNode splits = json.path("pre_tokenizer");
        if (isAbsent(normalizer)) {
            return isMetaspace(splits) && keepsPieces(splits, json) ? scheme(splits) : Optional.empty();
        }
        List<JsonNode> steps = normalizer.path("type").asText().equals("Sequence")
                ? normalizer.path("normalizers").valueStream().toList()
                : List.of(normalizer);
        boolean prepends = steps.size() == 2 && isPrepend(steps.getFirst());
        boolean known = (prepends || steps.size() == 1)
                && isReplace(steps.getLast())
                && (isAbsent(splits) || isSplitAtSpaces(splits));
        return known ? Optional.of(prepends) : Optional.empty();
    }

    private static boolean isAbsent(JsonNode step) {
        return step.isMissingNode() || step.isNull();
    }

    private static boolean isPrepend(JsonNode step) {
        return step.path("type").asText().equals("Prepend")
                && step.path("prepend").asText().equals(TokenizerImport.SPACE);
    }

    private static boolean isReplace(JsonNode step) {
        return step.path("type").asText().equals("Replace")
                && step.path("pattern").path("String").asText().equals(" ")
                && step.path("content").asText().equals(TokenizerImport.SPACE);
    }

    /** Gemma's files have it, where no space is left to split at. */
    private static boolean isSplitAtSpaces(JsonNode step) {
        return step.path("type").asText().equals("Split")
                && step.path("pattern").path("String").asText().equals(" ")
                && !step.path("invert").asBoolean();
    }

    private static boolean isMetaspace(JsonNode step) {
        return step.path("type").asText().equals("Metaspace")
                && step.path("replacement").asText().equals(TokenizerImport.SPACE);
    }

    /** Metaspace also splits texts before every space unless told otherwise, which changes pieces that have one within. */
    private static boolean keepsPieces(JsonNode metaspace, ObjectNode json) {
        return !metaspace.path("split").asBoolean(true)
                || merged(json).noneMatch(piece -> piece.indexOf(TokenizerImport.SPACE, 1) > 0);
    }

    private static Stream<String> merged(ObjectNode json) {
        return json.path("model").path("vocab").propertyStream().map(e -> e.getKey());
    }

    private static Optional<Boolean> scheme(JsonNode metaspace) {
        String scheme = metaspace
                .path("prepend_scheme")
                .asText(metaspace.path("add_prefix_space").asBoolean(true) ? "always" : "never");
        return switch (scheme) {
            case "first", "always" -> Optional.of(true);
            case "never" -> Optional.of(false);
            default -> Optional.empty();
        };
    }
}
