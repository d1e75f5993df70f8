package dev.octet.trainer;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.trainer.hook.RunPlan;
import dev.octet.trainer.hook.TrainingHook.RunStart;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class RunManifestTest {
    @TempDir
    Path folder;

    @Test
    void the_file_says_first_what_it_is() throws IOException {
        RunPlan plan = new RunPlan("cpu", "plain", "fp32", 0, List.of(), List.of("w"), 4, 0, 16, 16, List.of());
        RunManifest.write(folder, Map.of("steps", "3"), RunOptions.defaults(), new RunStart(folder, 1, 3, plan));
        JsonNode run = new ObjectMapper().readTree(folder.resolve("run.json").toFile());
        assertEquals("schema", run.fieldNames().next());
        assertEquals("octet/run/1", run.get("schema").asText());
        assertEquals("3", run.at("/settings/steps").asText());
    }
}
