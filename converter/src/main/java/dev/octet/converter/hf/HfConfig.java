package dev.octet.converter.hf;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * {@code config.json}, asked key by key. A key may have several spellings, as transformers renames them over the years; the first that is
 * there counts, {@code null} counts as absent. Numbers are checked when they are asked for.
 *
 * @param json the whole file
 * @param where the file, for messages
 */
record HfConfig(ObjectNode json, String where) {
    /** Far above any real model; keeps products of two sizes within 64 bits, and a hostile file from making a graph without end. */
    static final long MAX_SIZE = 1L << 24;

    /** Layers of the deepest model Octet makes a graph of. */
    static final long MAX_LAYERS = 1 << 12;

    /** A size: a whole number from 1 to {@link #MAX_SIZE}. */
    int size(String... keys) {
        return optionalSize(keys).orElseThrow(() -> missing(keys));
    }

    /** A size, or {@code fallback} where the key is absent. */
    int sizeOr(int fallback, String... keys) {
        return optionalSize(keys).orElse(fallback);
    }

    /** A size where the key is there. */
    Optional<Integer> optionalSize(String... keys) {
        return number(1, MAX_SIZE, keys);
    }

    /** A whole number from 0 to {@link #MAX_SIZE}, where the key is there. */
    Optional<Integer> count(String key) {
        return number(0, MAX_SIZE, key);
    }

    /** Number of layers. */
    int layers(String... keys) {
        return number(1, MAX_LAYERS, keys).orElseThrow(() -> missing(keys));
    }

    private Optional<Integer> number(long low, long high, String... keys) {
        for (String key : keys) {
            JsonNode value = json.path(key);
            if (value.isMissingNode() || value.isNull()) {
                continue;
            }
            if (!value.isIntegralNumber() || !value.canConvertToLong()) {
                throw malformed(key + " is " + shown(value) + ", not a whole number");
            }
            long number = value.longValue();
            if (number < low || number > high) {
                throw malformed(key + " is " + number + ", not between " + low + " and " + high);
            }
            return Optional.of((int) number);
        }
        return Optional.empty();
    }

    /**
     * The token that fills texts up, {@code pad_token_id}: its embedding gets no gradient where it is looked up.
     *
     * @param vocabulary rows of the embedding; a negative number counts from its end, as torch takes it
     */
    Optional<Integer> padding(int vocabulary) {
        return number(-vocabulary, vocabulary - 1L, "pad_token_id").map(p -> p < 0 ? p + vocabulary : p);
    }

    /** A size and its second dimension: {@code 16} or {@code [16, 16]}. */
    int[] sizes(String key) {
        JsonNode value = json.path(key);
        if (!value.isArray()) {
            int one = size(key);
            return new int[] {one, one};
        }
        if (value.size() != 2 || !isSize(value.get(0)) || !isSize(value.get(1))) {
            throw malformed(key + " is " + shown(value) + ", not one or two sizes from 1 to " + MAX_SIZE);
        }
        return new int[] {value.get(0).intValue(), value.get(1).intValue()};
    }

    private static boolean isSize(JsonNode n) {
        return n.isIntegralNumber() && n.canConvertToLong() && n.longValue() >= 1 && n.longValue() <= MAX_SIZE;
    }

    /** A positive, finite number, or {@code fallback} where the key is absent. */
    double positive(double fallback, String... keys) {
        for (String key : keys) {
            JsonNode value = json.path(key);
            if (value.isMissingNode() || value.isNull()) {
                continue;
            }
            return positive(value, key);
        }
        return fallback;
    }

    /** The value of a key, which must be a positive, finite number. */
    double positive(JsonNode value, String key) {
        double number = value.doubleValue();
        if (!value.isNumber() || !(number > 0) || Double.isInfinite(number)) {
            throw malformed(key + " is " + shown(value) + ", not a positive number");
        }
        return number;
    }

    /** Yes or no, or {@code fallback} where the key is absent. */
    boolean flag(boolean fallback, String key) {
        JsonNode value = json.path(key);
        if (value.isMissingNode() || value.isNull()) {
            return fallback;
        }
        if (!value.isBoolean()) {
            throw malformed(key + " is " + shown(value) + ", neither true nor false");
        }
        return value.booleanValue();
    }

    /** Text, or {@code fallback} where the key is absent. */
    String text(String fallback, String... keys) {
        for (String key : keys) {
            JsonNode value = json.path(key);
            if (value.isMissingNode() || value.isNull()) {
                continue;
            }
            if (!value.isTextual()) {
                throw malformed(key + " is " + shown(value) + ", not text");
            }
            return value.textValue();
        }
        return fallback;
    }

    /** A list of texts; empty where the key is absent. */
    List<String> texts(String key) {
        JsonNode value = json.path(key);
        List<String> texts = new ArrayList<>();
        if (value.isMissingNode() || value.isNull()) {
            return texts;
        }
        for (JsonNode one : value) {
            if (!one.isTextual()) {
                throw malformed(key + " holds " + shown(one) + ", which is not text");
            }
            texts.add(one.textValue());
        }
        if (!value.isArray()) {
            throw malformed(key + " is " + shown(value) + ", not a list");
        }
        return texts;
    }

    /** An object, where there is one. */
    Optional<ObjectNode> object(String key) {
        JsonNode value = json.path(key);
        if (value.isMissingNode() || value.isNull()) {
            return Optional.empty();
        }
        if (value instanceof ObjectNode object) {
            return Optional.of(object);
        }
        throw malformed(key + " is " + shown(value) + ", not an object");
    }

    /** {@code whole / parts}, which must go evenly. */
    int divided(int whole, String wholeKey, int parts, String partsKey) {
        if (whole % parts != 0) {
            throw malformed(wholeKey + " " + whole + " is not divisible by " + partsKey + " " + parts);
        }
        return whole / parts;
    }

    MalformedModelException malformed(String what) {
        return new MalformedModelException(what, where, "put the model's own config.json there; Octet does not guess");
    }

    private MalformedModelException missing(String... keys) {
        return malformed("the key " + String.join(" or ", keys) + " is missing");
    }

    /** A value of a key that the importer cannot compute. */
    UnsupportedModelException unsupported(String key, @Nullable String value, String known) {
        return new UnsupportedModelException(
                key + " '" + value + "' is not one that Octet computes", where, "known are: " + known);
    }

    private static String shown(JsonNode value) {
        String text = value.toString();
        return text.length() <= 40 ? text : text.substring(0, 40) + "...";
    }
}
