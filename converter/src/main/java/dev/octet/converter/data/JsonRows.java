package dev.octet.converter.data;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.exc.MismatchedInputException;
import com.fasterxml.jackson.databind.json.JsonMapper;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.file.JsonFault;
import java.io.IOException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * The objects of a file with one JSON object per line; blank lines are skipped.
 *
 * @param file the file
 */
record JsonRows(Path file) implements Rows {
    private static final ObjectMapper JSON = JsonMapper.builder()
            .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
            .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
            .build();
    private static final TypeReference<LinkedHashMap<String, @Nullable Object>> OBJECT = new TypeReference<>() {};

    @Override
    public void read(Set<String> columns, Visitor visitor) throws IOException {
        try (JsonLines lines = JsonLines.index(file)) {
            for (int i = 0; i < lines.count(); i++) {
                String where = file + ", line " + lines.line(i);
                if (!visitor.row(new Row(object(lines.bytes(i), where), where))) {
                    return;
                }
            }
        }
    }

    private static Map<String, @Nullable Object> object(byte[] line, String where) {
        String fix =
                "give one object per line, for example {\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}";
        try {
            Map<String, @Nullable Object> values = JSON.readValue(line, OBJECT);
            if (values == null) {
                throw new InvalidDataException("null, not a JSON object", where, fix);
            }
            return values;
        } catch (MismatchedInputException e) {
            throw new InvalidDataException("not a JSON object", where, fix, e);
        } catch (JsonProcessingException e) {
            throw new InvalidDataException(
                    "not a JSON object: " + JsonFault.of(e, line).what(), where, fix, e);
        } catch (IOException e) {
            throw new InvalidDataException("not JSON: " + e.getMessage(), where, fix, e); // malformed UTF-8
        }
    }
}
