package dev.octet.formats.safetensors;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.TestData;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.model.Model;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.Map;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** What the reference reader (safetensors 0.8.0) says of each committed file is what Octet says. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class HostileFilesTest {
    /** Beginnings of the reference reader's messages. */
    private static final Map<String, SafetensorsRule> RULES = Map.of(
            "header too small", SafetensorsRule.HEADER_TOO_SMALL,
            "header too large", SafetensorsRule.HEADER_TOO_LARGE,
            "invalid header length", SafetensorsRule.INVALID_HEADER_LENGTH,
            "invalid JSON in header", SafetensorsRule.INVALID_HEADER_DESERIALIZATION,
            "incomplete metadata", SafetensorsRule.METADATA_INCOMPLETE_BUFFER,
            "invalid shape, data type", SafetensorsRule.TENSOR_INVALID_INFO,
            "overflow computing", SafetensorsRule.VALIDATION_OVERFLOW,
            "The slice is slicing for subbytes", SafetensorsRule.MISALIGNED_SLICE);

    static Stream<Arguments> verdicts() throws IOException {
        JsonNode verdicts = new ObjectMapper()
                .readTree(TestData.path("hostile/safetensors/verdicts.json").toFile());
        return StreamSupport.stream(verdicts.spliterator(), false)
                .map(v -> Arguments.of(
                        v.get("name").asText(),
                        v.get("verdict").asText().equals("accept"),
                        v.get("detail").asText()));
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("verdicts")
    void the_verdict_is_that_of_the_reference_reader(String name, boolean accepted, String detail) throws IOException {
        Path path = TestData.path("hostile/safetensors/" + name + ".safetensors");
        try (Arena arena = Arena.ofConfined()) {
            if (accepted) {
                Model model = new SafetensorsFormat().read(path, arena);
                assertEquals(Integer.parseInt(detail), model.tensors().size());
            } else {
                MalformedModelException e =
                        assertThrows(MalformedModelException.class, () -> new SafetensorsFormat().read(path, arena));
                assertEquals(rule(detail).id(), e.rule().orElseThrow(), e.getMessage());
            }
        }
    }

    private static SafetensorsRule rule(String detail) {
        return RULES.entrySet().stream()
                .filter(r -> detail.contains(r.getKey()))
                .findFirst()
                .orElseThrow()
                .getValue();
    }
}
