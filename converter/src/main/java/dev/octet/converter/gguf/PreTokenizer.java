package dev.octet.converter.gguf;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * How a byte-level tokenizer splits texts before it merges: {@code tokenizer.ggml.pre} and {@code pre_tokenizer} of {@code tokenizer.json}. llama.cpp
 * has the expressions compiled in under these names, and refuses a file with a name that it does not know. A file with {@code default}, or without
 * a name, it splits at punctuation first and into three digits, which is none of these. Source: llama.cpp, src/llama-vocab.cpp.
 */
enum PreTokenizer {
    GPT2("gpt-2", null, List.of("gpt-2", "gpt2")),
    LLAMA3(
            "llama-bpe",
            "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r"
                    + "\\n"
                    + "\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r"
                    + "\\n"
                    + "]*|\\s*[\\r"
                    + "\\n"
                    + "]+|\\s+(?!\\S)|\\s+",
            List.of("llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral")),
    QWEN2(
            "qwen2",
            "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r"
                    + "\\n"
                    + "\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r"
                    + "\\n"
                    + "]*|\\s*[\\r"
                    + "\\n"
                    + "]+|\\s+(?!\\S)|\\s+",
            List.of("qwen2", "deepseek-r1-qwen", "megrez")),
    /** Digits one by one, otherwise as GPT-2. */
    SMOLLM("smollm", null, List.of("smollm"));

    private final String name;
    private final @Nullable String expression;

    @SuppressWarnings("ImmutableEnumChecker") // nobody changes it
    private final List<String> names;

    PreTokenizer(String name, @Nullable String expression, List<String> names) {
        this.name = name;
        this.expression = expression;
        this.names = names;
    }

    /** As it is written to files. */
    String written() {
        return name;
    }

    /** The one of this name in a file. */
    static Optional<PreTokenizer> named(String name) {
        return Arrays.stream(values()).filter(p -> p.names.contains(name)).findFirst();
    }

    /** All names, for messages. */
    static String known() {
        return Arrays.stream(values()).flatMap(p -> p.names.stream()).collect(Collectors.joining(", "));
    }

    /** Its form in {@code tokenizer.json}. */
    ObjectNode json() {
        ObjectNode bytes = byteLevel(expression == null);
        if (this == GPT2) {
            return bytes;
        }
        ObjectNode all = JsonNodeFactory.instance.objectNode().put("type", "Sequence");
        ArrayNode steps = all.putArray("pretokenizers");
        if (this == SMOLLM) {
            steps.addObject().put("type", "Digits").put("individual_digits", true);
        } else {
            ObjectNode split = steps.addObject().put("type", "Split");
            split.putObject("pattern").put("Regex", expression);
            split.put("behavior", "Isolated").put("invert", false);
        }
        steps.add(bytes);
        return all;
    }

    private static ObjectNode byteLevel(boolean splits) {
        return JsonNodeFactory.instance
                .objectNode()
                .put("type", "ByteLevel")
                .put("add_prefix_space", false)
                .put("trim_offsets", false)
                .put("use_regex", splits);
    }

    /** The one that {@code pre_tokenizer} of a {@code tokenizer.json} is; empty for another. */
    static Optional<PreTokenizer> of(JsonNode preTokenizer) {
        List<JsonNode> steps = preTokenizer.path("type").asText().equals("Sequence")
                ? preTokenizer.path("pretokenizers").valueStream().toList()
                : List.of(preTokenizer);
        JsonNode last = steps.isEmpty() ? preTokenizer : steps.getLast();
        if (!last.path("type").asText().equals("ByteLevel")
                || last.path("add_prefix_space").asBoolean(true)) {
            return Optional.empty();
        }
        boolean splits = last.path("use_regex").asBoolean(true);
        if (steps.size() == 1) {
            return splits ? Optional.of(GPT2) : Optional.empty();
        }
        if (steps.size() > 2) {
            return Optional.empty();
        }
        JsonNode first = steps.getFirst();
        if (first.path("type").asText().equals("Digits")) {
            return splits && first.path("individual_digits").asBoolean() ? Optional.of(SMOLLM) : Optional.empty();
        }
        String given = first.path("pattern").path("Regex").asText();
        return splits
                        || !first.path("behavior").asText().equals("Isolated")
                        || first.path("invert").asBoolean()
                ? Optional.empty()
                : Arrays.stream(values())
                        .filter(p -> p.expression != null && p.expression.equals(given))
                        .findFirst();
    }
}
