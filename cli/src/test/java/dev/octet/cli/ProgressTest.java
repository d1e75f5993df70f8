package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
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
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ProgressTest {
    private static String shown(ProgressStyle style) {
        return shown(style, TextStyle.terminal(80), "calibrating", 100, "samples");
    }

    private static String shown(ProgressStyle style, TextStyle text, String task, long total, String unit) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        PrintStream err = new PrintStream(bytes, true, StandardCharsets.UTF_8);
        try (Progress progress = new Progress(style, new Screen(err, err, text, text, 0))) {
            for (int i = 0; i <= 100; i++) {
                progress.progress(task, total * i / 100, total, unit);
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

    @ParameterizedTest
    @ValueSource(ints = {40, 60, 80, 132})
    void a_bar_fits_its_line_and_says_units(int columns) {
        for (String line : shown(ProgressStyle.BAR, TextStyle.terminal(columns), "quantising", 252_717_056L, "elements")
                .split("[\\r\\n]+", -1)) {
            assertTrue(line.length() < columns, line);
            assertTrue(line.isBlank() || line.contains("elements") || line.contains("tensors"), line);
        }
    }

    @Test
    void amounts_are_shown_as_people_read_them() {
        String lines = shown(ProgressStyle.PLAIN, TextStyle.PLAIN, "quantising", 505_434_112L, "bytes");
        assertTrue(lines.contains("quantising: 0 B of 505.4 MB"), lines);
        assertTrue(lines.contains("quantising: 505.4 MB of 505.4 MB"), lines);
    }

    @Test
    void seconds_that_pass_have_no_rate() throws InterruptedException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        PrintStream err = new PrintStream(bytes, true, StandardCharsets.UTF_8);
        try (Progress progress =
                new Progress(ProgressStyle.BAR, new Screen(err, err, TextStyle.PLAIN, TextStyle.terminal(80), 0))) {
            progress.progress("fetching", 0, 0, "s");
            Thread.sleep(250);
            progress.progress("fetching", 2, 0, "s");
        }
        String shown = bytes.toString(StandardCharsets.UTF_8);
        assertTrue(shown.contains("\rfetching  2 s"), shown);
        assertFalse(shown.contains("/s"), shown);
    }

    @Test
    void no_progress_writes_nothing() {
        assertEquals("", shown(ProgressStyle.NONE));
    }
}
