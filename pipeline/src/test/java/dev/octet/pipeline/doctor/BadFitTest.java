package dev.octet.pipeline.doctor;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class BadFitTest {
    @TempDir
    Path run;

    private final List<String> lines = new ArrayList<>();

    private void measured(long step, String tensor, double clipped, double underflowed) {
        lines.add(String.format(
                Locale.ROOT,
                "{\"step\":%d,\"tensor\":\"%s\",\"elements\":1000,\"clipped\":%d,\"underflowed\":%d}",
                step,
                tensor,
                Math.round(1000 * clipped),
                Math.round(1000 * underflowed)));
    }

    private List<String> around(long step) throws IOException {
        Files.write(run.resolve("fp8_health.jsonl"), lines);
        return BadFit.around(run, step).stream().map(BadFit::sentence).toList();
    }

    @Test
    void what_clips_or_underflows_much_near_the_step_is_named_worst_first() throws IOException {
        for (long step = 5; step <= 60; step += 5) {
            measured(step, "good", 0.009, 0.4);
            measured(step, "flat", 0, step < 25 ? 0.1 : 0.62);
            measured(step, "steep", step == 35 ? 0.03 : 0, 0);
            measured(step, "later", step > 45 ? 0.5 : 0, 0);
        }
        assertEquals(List.of("at step 35 3 % of steep was clipped", "at step 25 62 % of flat underflowed"), around(30));
        assertEquals(List.of(), around(12));
    }

    @Test
    void where_nothing_was_measured_so_near_the_last_measurement_before_counts() throws IOException {
        measured(100, "older", 0.9, 0);
        measured(200, "x", 0.02, 0);
        measured(200, "y", 0, 0);
        measured(300, "z", 0.9, 0);
        assertEquals(List.of("at step 200 2 % of x was clipped"), around(250));
        assertEquals(List.of(), around(50));
    }

    @Test
    void at_most_five_tensors_are_named() throws IOException {
        for (int i = 0; i < 20; i++) {
            measured(1, "t" + i, 0.1 + 0.01 * i, 0);
        }
        List<String> named = around(1);
        assertEquals(5, named.size());
        assertEquals("at step 1 29 % of t19 was clipped", named.getFirst());
    }

    @Test
    void a_run_without_measurements_and_lines_that_are_none_say_nothing() throws IOException {
        assertEquals(List.of(), BadFit.around(run, 7));
        lines.add("{\"step\":1,\"tensor\":7,\"elements\":1,\"clipped\":1}");
        lines.add("{\"step\":1,\"tensor\":\"a\",\"elements\":1,\"clipped\":\"much\",\"underflowed\":-3}");
        lines.add("{\"step\":1,\"tensor\":\"b\",\"elements\":1,\"clipped\":1e300}");
        lines.add("{\"step\":1,\"tensor\":\"c\",\"elements\":0,\"clipped\":1}");
        lines.add("not a line");
        assertTrue(around(1).isEmpty(), lines.toString());
    }
}
