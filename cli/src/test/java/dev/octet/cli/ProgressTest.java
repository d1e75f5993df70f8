package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ProgressTest {
    private static String shown(ProgressStyle style) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        PrintStream err = new PrintStream(bytes, true, StandardCharsets.UTF_8);
        try (Progress progress = new Progress(style, err)) {
            for (int i = 0; i <= 100; i++) {
                progress.progress("calibrating", i, 100, "samples");
            }
            progress.progress("writing", 0, 0, "tensors");
        }
        return bytes.toString(StandardCharsets.UTF_8);
    }

    @Test
    void plain_progress_shows_the_start_and_the_end_and_not_every_step() {
        List<String> lines = shown(ProgressStyle.PLAIN).lines().toList();
        assertTrue(lines.getFirst().startsWith("calibrating: 0 of 100 samples"), lines.toString());
        assertTrue(lines.stream().anyMatch(l -> l.startsWith("calibrating: 100 of 100 samples")), lines.toString());
        assertTrue(lines.getLast().startsWith("writing: 0 tensors"), lines.toString());
        assertTrue(lines.size() < 20, lines.toString());
    }

    @Test
    void json_progress_is_one_object_a_line() throws IOException {
        ObjectMapper mapper = new ObjectMapper();
        for (String line : shown(ProgressStyle.JSON).lines().toList()) {
            JsonNode step = mapper.readTree(line);
            assertTrue(step.has("task") && step.has("done") && step.has("total") && step.has("eta_seconds"), line);
        }
    }

    @Test
    void a_bar_names_task_and_unit() {
        assertTrue(shown(ProgressStyle.BAR).contains("calibrating"));
    }

    @Test
    void no_progress_writes_nothing() {
        assertEquals("", shown(ProgressStyle.NONE));
    }
}
