package dev.octet.converter.hf;

import static org.junit.jupiter.api.Assertions.assertFalse;

import com.code_intelligence.jazzer.junit.FuzzTest;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.graph.GraphCheck;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;

/** An arbitrary {@code config.json} as a model: either a graph, or refused. How to fuzz: docs/fuzzing.md. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("fuzz")
class HfImporterFuzzTest {
    /** More layers than this only take longer. */
    private static final int MOST_LAYERS = 40;

    @FuzzTest(maxDuration = "30m")
    void an_arbitrary_configuration_is_a_model_or_refused(byte[] bytes) {
        try {
            ObjectNode config = ModelConfig.parse(new String(bytes, StandardCharsets.UTF_8), "fuzz");
            if (isShallow(config)) {
                HfImporter.blueprint(config, true, "fuzz");
            }
        } catch (OctetException e) {
            assertFalse(e.fix().isEmpty());
        }
    }

    @FuzzTest(maxDuration = "30m")
    void an_arbitrary_configuration_beside_no_tensors_is_refused(byte[] bytes) {
        try {
            ObjectNode config = ModelConfig.parse(new String(bytes, StandardCharsets.UTF_8), "fuzz");
            if (isShallow(config)) {
                GraphCheck.check(HfImporter.of(config, Map.of(), "fuzz").model());
            }
        } catch (OctetException e) {
            assertFalse(e.fix().isEmpty());
        }
    }

    private static boolean isShallow(ObjectNode config) {
        return config.path("num_hidden_layers").asInt(0) <= MOST_LAYERS
                && config.path("n_layer").asInt(0) <= MOST_LAYERS
                && config.path("num_layers").asInt(0) <= MOST_LAYERS;
    }
}
