package dev.octet.converter.hf;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.error.MalformedModelException;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/** Frequencies of rotary positions beside those that transformers computes ({@code golden/hf/rotary.json}). */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class RotaryAnglesTest {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Path GOLDEN = Path.of(System.getProperty("octet.testdata"), "golden/hf/rotary.json");
    private static final RotaryAngles.Family PHI3 =
            new RotaryAngles.Family(RotaryAngles.DEFAULT_THETA, 1, Set.of("su", "yarn"));

    /** Powers of torch and of Java differ by the last bits, and a growing base is raised to its power twice here. */
    private static final int MAX_ULPS = 8;

    static List<JsonNode> cases() throws IOException {
        List<JsonNode> cases = new ArrayList<>();
        JSON.readTree(GOLDEN.toFile()).forEach(cases::add);
        return cases;
    }

    private static RotaryAngles angles(JsonNode given, int size) {
        HfConfig config = new HfConfig((ObjectNode) given, "config.json");
        boolean phi = given.path("model_type").asText().equals("phi3");
        return RotaryAngles.of(config, size, phi ? PHI3 : RotaryAngles.Family.LLAMA);
    }

    @ParameterizedTest
    @MethodSource("cases")
    void every_rope_type_gives_the_angles_of_transformers(JsonNode given) {
        RotaryAngles angles =
                angles(given.path("config"), given.path("head_size").asInt());
        for (JsonNode text : given.path("texts")) {
            int length = text.path("length").asInt();
            float[] found = angles.frequencies(length);
            assertEquals(text.path("inv_freq").size(), found.length);
            for (int i = 0; i < found.length; i++) {
                float expected = Float.intBitsToFloat(
                        Integer.parseUnsignedInt(text.path("inv_freq").get(i).asText(), 16));
                assertTrue(
                        Math.abs(found[i] - expected) <= MAX_ULPS * Math.ulp(expected),
                        given.path("name").asText() + ", length " + length + ", pair " + i + ": " + found[i] + ", not "
                                + expected);
            }
            assertEquals(text.path("magnitude").floatValue(), angles.magnitude());
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "{'rope_type': 'linear'}|rope_parameters.factor is",
                "{'rope_type': 'dynamic'}|rope_parameters.factor is",
                "{'rope_type': 'dynamic', 'factor': 2, 'partial_rotary_factor': 0.25}|needs two pairs",
                "{'rope_type': 'yarn', 'factor': -1}|factor is -1",
                "{'rope_type': 'yarn', 'factor': 2, 'beta_fast': -1}|beta_fast is -1",
                "{'rope_type': 'longrope', 'long_factor': [1, 1, 1, 1]}|needs 4 numbers as short_factor",
                "{'rope_type': 'longrope', 'short_factor': [1, 1, 1]}|needs 4 numbers as short_factor",
                "{'rope_type': 'longrope', 'short_factor': [1, 1, 1, 0]}|short_factor is 0"
            })
    void a_number_that_a_rope_type_lacks_is_named(String rope, String told) throws IOException {
        ObjectNode config = JSON.createObjectNode().put("max_position_embeddings", 64);
        config.set("rope_parameters", JSON.readTree(rope.replace('\'', '"')));
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> angles(config, 8));
        assertTrue(e.what().contains(told), e.what());
    }

    @Test
    void phi_3_calls_longrope_su_in_its_first_files() throws IOException {
        ObjectNode config = JSON.createObjectNode()
                .put("model_type", "phi3")
                .put("max_position_embeddings", 64)
                .put("original_max_position_embeddings", 8);
        config.set(
                "rope_scaling", JSON.readTree("{\"type\": \"su\", \"short_factor\": [1, 2], \"long_factor\": [3, 4]}"));
        RotaryAngles angles = angles(config, 4);
        assertEquals(1f / 3, angles.frequencies(9)[0]);
        assertEquals((float) Math.sqrt(2), angles.magnitude(), 1e-6f); // sqrt(1 + log(8) / log(8))
    }
}
