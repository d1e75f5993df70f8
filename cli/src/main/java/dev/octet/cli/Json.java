package dev.octet.cli;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectWriter;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.NullNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;

/** Answers as JSON: records and maps become objects, names in snake_case. What is not a finite number becomes null. */
final class Json {
    /** Version of all answers: one more when a key is taken away or its value changes its meaning, not when a key is added. */
    private static final int VERSION = 1;

    private static final ObjectMapper MAPPER = JsonMapper.builder()
            .propertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE)
            .enable(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS)
            .build();

    private Json() {}

    /** {@code value} on one line. */
    static String line(Object value) {
        return write(MAPPER.writer(), finite(MAPPER.valueToTree(value)));
    }

    /**
     * What a command line with {@code --json} prints, indented for reading.
     *
     * @param kind what it is, as a rule the verb; with the version it makes the value of {@code schema}: {@code octet/verify/1}
     * @param value a record or map
     */
    static String answer(String kind, Object value) {
        ObjectNode answer = MAPPER.createObjectNode().put("schema", "octet/" + kind + "/" + VERSION);
        answer.setAll((ObjectNode) finite(MAPPER.valueToTree(value)));
        return write(MAPPER.writerWithDefaultPrettyPrinter(), answer);
    }

    /** JSON has no NaN and no infinity. */
    private static JsonNode finite(JsonNode node) {
        switch (node) {
            case ObjectNode object -> {
                List<String> names = new ArrayList<>();
                object.fieldNames().forEachRemaining(names::add);
                names.forEach(n -> object.set(n, finite(object.get(n))));
            }
            case ArrayNode array -> {
                for (int i = 0; i < array.size(); i++) {
                    array.set(i, finite(array.get(i)));
                }
            }
            default -> {
                boolean lost = node.isFloatingPointNumber() && !Double.isFinite(node.doubleValue());
                return lost ? NullNode.getInstance() : node;
            }
        }
        return node;
    }

    private static String write(ObjectWriter writer, Object value) {
        try {
            return writer.writeValueAsString(value);
        } catch (JsonProcessingException e) {
            throw new IllegalStateException("an answer of Octet has no JSON form", e);
        }
    }
}
