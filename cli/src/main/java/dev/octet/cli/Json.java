package dev.octet.cli;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectWriter;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.json.JsonMapper;

/** Answers as JSON: records and maps become objects, names in snake_case. Not-a-number and infinity become text ("NaN"). */
final class Json {
    private static final ObjectMapper MAPPER = JsonMapper.builder()
            .propertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE)
            .enable(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS)
            .build();

    private Json() {}

    /** {@code value} on one line. */
    static String line(Object value) {
        return write(MAPPER.writer(), value);
    }

    /** {@code value} indented for reading. */
    static String page(Object value) {
        return write(MAPPER.writerWithDefaultPrettyPrinter(), value);
    }

    private static String write(ObjectWriter writer, Object value) {
        try {
            return writer.writeValueAsString(value);
        } catch (JsonProcessingException e) {
            throw new IllegalStateException("an answer of Octet has no JSON form", e);
        }
    }
}
