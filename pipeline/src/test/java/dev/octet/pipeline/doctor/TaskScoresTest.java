package dev.octet.pipeline.doctor;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidDataException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TaskScoresTest {
    @TempDir
    Path folder;

    private TaskScores read(String json) throws IOException {
        return TaskScores.read(Files.writeString(folder.resolve("tasks.json"), json));
    }

    /** Ten tasks, of which the first are worse. */
    private TaskScores ten(int bad) throws IOException {
        return read(IntStream.range(0, 10)
                .mapToObj(i -> "\"t%d\": {\"baseline\": 0.6, \"run\": %s}".formatted(i, i < bad ? "0.3" : "0.6"))
                .collect(Collectors.joining(", ", "{", "}")));
    }

    @Test
    void all_tasks_bad_is_the_export_and_two_are_not() throws IOException {
        assertFalse(ten(0).blamesExport());
        assertFalse(ten(1).blamesExport());
        assertFalse(ten(2).blamesExport());
        assertTrue(ten(9).blamesExport());
        assertTrue(ten(10).blamesExport());
        assertEquals(2, ten(2).bad().size());
    }

    @Test
    void a_task_is_bad_beyond_twice_the_error_of_the_difference() throws IOException {
        TaskScores scores = read("""
            {"near": {"baseline": 0.60, "run": 0.58, "stderr": 0.01},
             "far": {"baseline": 0.60, "run": 0.56, "stderr": 0.01},
             "better": {"baseline": 0.60, "run": 0.70},
             "perplexity": {"baseline": 10, "run": 12, "lower_is_better": true}}\
            """);
        assertEquals(
                "far,perplexity",
                scores.bad().stream().map(TaskScores.Task::name).collect(Collectors.joining(",")));
        assertEquals(2, scores.bad().get(1).lost());
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "[]",
                "{}",
                "{\"a\": 3}",
                "{\"a\": {\"baseline\": 1}}",
                "{\"a\": {\"baseline\": \"x\", \"run\": 1}}",
                "{\"a\": {\"baseline\": 1e999, \"run\": 1}}",
                "not json"
            })
    void anything_else_is_refused_with_the_form_that_is_meant(String text) {
        InvalidDataException e = assertThrows(InvalidDataException.class, () -> read(text));
        assertTrue(e.fix().contains("\"baseline\""), e.fix());
    }
}
