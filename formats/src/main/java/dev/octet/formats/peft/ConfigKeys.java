package dev.octet.formats.peft;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeType;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.error.MalformedModelException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * The keys of a configuration by type. A missing key and {@code null} are the same: PEFT's default.
 *
 * @param where the file, for messages
 */
record ConfigKeys(ObjectNode json, String where) {
    /** Longest list of names or numbers; a layer has tens of modules, a model hundreds of layers. */
    static final int MAX_ENTRIES = 100_000;

    private @Nullable JsonNode value(String key) {
        JsonNode value = json.get(key);
        return value == null || value.isNull() ? null : value;
    }

    /** File and key, for messages. */
    String where(String key) {
        return where + ", key " + key;
    }

    /** The error for a value of a wrong type. */
    MalformedModelException wrong(String key, String wanted) {
        return new MalformedModelException(
                key + " is " + shown(json.get(key)) + ", not " + wanted,
                where(key),
                "correct the value, or remove the key for PEFT's default");
    }

    private static String shown(@Nullable JsonNode value) {
        if (value == null || value.isNull()) {
            return "missing";
        }
        String text = value.toString();
        String brief = text.length() > 60 ? text.substring(0, 57) + "..." : text;
        return value.getNodeType() == JsonNodeType.STRING
                ? "the text " + brief
                : value.getNodeType().name().toLowerCase(Locale.ROOT) + " " + brief;
    }

    /** true or false. */
    boolean flag(String key, boolean preset) {
        JsonNode value = value(key);
        if (value == null) {
            return preset;
        }
        if (!value.isBoolean()) {
            throw wrong(key, "true or false");
        }
        return value.booleanValue();
    }

    /** A text. */
    Optional<String> text(String key) {
        JsonNode value = value(key);
        if (value == null) {
            return Optional.empty();
        }
        if (!value.isTextual()) {
            throw wrong(key, "a text");
        }
        return Optional.of(value.textValue());
    }

    /** One of {@code valid}. */
    String oneOf(String key, String preset, List<String> valid) {
        String text = text(key).orElse(preset);
        if (!valid.contains(text)) {
            throw wrong(key, valid.stream().map(v -> '"' + v + '"').collect(Collectors.joining(" or ")));
        }
        return text;
    }

    /** A whole number of at least 1; null when it is missing. */
    @Nullable
    Integer count(String key) {
        JsonNode value = value(key);
        return value == null ? null : count(key, value);
    }

    /** A whole number of at least 1. */
    int count(String key, int preset) {
        Integer value = count(key);
        return value == null ? preset : value;
    }

    private int count(String key, JsonNode value) {
        if (!value.isIntegralNumber() || !value.canConvertToInt() || value.intValue() < 1) {
            throw wrong(key, "a whole number of at least 1");
        }
        return value.intValue();
    }

    /** A finite number. */
    double number(String key, double preset) {
        JsonNode value = value(key);
        return value == null ? preset : number(key, value);
    }

    private double number(String key, JsonNode value) {
        if (!value.isNumber() || !Double.isFinite(value.doubleValue())) {
            throw wrong(key, "a finite number");
        }
        return value.doubleValue();
    }

    /** A list of texts. */
    Optional<List<String>> names(String key) {
        JsonNode value = value(key);
        if (value == null) {
            return Optional.empty();
        }
        List<String> names = new ArrayList<>();
        for (JsonNode each : array(key, value, "a list of texts")) {
            if (!each.isTextual()) {
                throw wrong(key, "a list of texts");
            }
            names.add(each.textValue());
        }
        return Optional.of(List.copyOf(names));
    }

    /** A list of texts, or one text. */
    Optional<List<String>> namesOrName(String key) {
        JsonNode value = value(key);
        return value != null && value.isTextual() ? Optional.of(List.of(value.textValue())) : names(key);
    }

    /** A list of whole numbers, or one of them. */
    Optional<List<Integer>> indexes(String key) {
        JsonNode value = value(key);
        if (value == null) {
            return Optional.empty();
        }
        if (value.isIntegralNumber() && value.canConvertToInt()) {
            return Optional.of(List.of(value.intValue()));
        }
        List<Integer> indexes = new ArrayList<>();
        for (JsonNode each : array(key, value, "a whole number or a list of them")) {
            if (!each.isIntegralNumber() || !each.canConvertToInt()) {
                throw wrong(key, "a whole number or a list of them");
            }
            indexes.add(each.intValue());
        }
        return Optional.of(List.copyOf(indexes));
    }

    private JsonNode array(String key, JsonNode value, String wanted) {
        if (!value.isArray()) {
            throw wrong(key, wanted);
        }
        if (value.size() > MAX_ENTRIES) {
            throw new MalformedModelException(
                    key + " has " + value.size() + " entries, at most " + MAX_ENTRIES + " are read",
                    where(key),
                    "name fewer modules; names match the ends of module paths");
        }
        return value;
    }

    /** An object of whole numbers of at least 1, in the order of the file. */
    Map<String, Integer> counts(String key) {
        return object(key, v -> count(key, v));
    }

    /** An object of finite numbers, in the order of the file. */
    Map<String, Double> numbers(String key) {
        return object(key, v -> number(key, v));
    }

    private <T> Map<String, T> object(String key, Function<JsonNode, T> read) {
        JsonNode value = value(key);
        if (value == null) {
            return Map.of();
        }
        if (!value.isObject() || value.size() > MAX_ENTRIES) {
            throw wrong(key, "an object of numbers");
        }
        Map<String, T> all = new LinkedHashMap<>();
        value.properties().forEach(e -> all.put(e.getKey(), read.apply(e.getValue())));
        return Collections.unmodifiableMap(all);
    }
}
