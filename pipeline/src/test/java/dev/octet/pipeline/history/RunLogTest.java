package dev.octet.pipeline.history;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.file.FolderLock;
import dev.octet.trainer.Trainer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileTime;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class RunLogTest {
    private static final String MANIFEST = """
        {"settings": {"steps": "4", "precision.policy.settings.recipe.amax_history_length": "2"},
         "sessions": [{"first_step": 1, "device": "cpu", "precision": "fp8 delayed, bf16", "octet": "1", "model": "m"}]}
        """;

    @TempDir
    Path run;

    @BeforeEach
    void manifest() throws IOException {
        Files.writeString(run.resolve("run.json"), MANIFEST);
    }

    private void add(String file, String... lines) throws IOException {
        Files.writeString(
                run.resolve(file),
                String.join("\n", lines) + "\n",
                StandardOpenOption.CREATE,
                StandardOpenOption.APPEND);
    }

    private static String step(long step, String loss) {
        return "{\"step\":" + step + ",\"loss\":" + loss
                + ",\"lr\":0.1,\"grad_norm\":2,\"loss_scale\":1,\"skipped\":false,\"samples\":8,\"tokens\":100,\"seconds\":0.5}";
    }

    private static String tensor(long step, String layer, long clipped, double amax, double scale, long age) {
        return "{\"step\":" + step + ",\"tensor\":\"" + layer + ".input\",\"layer\":\"" + layer
                + "\",\"slot\":\"fp8." + layer + "\",\"kind\":\"input\",\"format\":\"E4M3FN\",\"elements\":1000,"
                + "\"clipped\":" + clipped + ",\"underflowed\":1,\"amax\":" + amax + ",\"scale\":" + scale
                + ",\"scale_age\":" + age + "}";
    }

    private RunHistory history() throws IOException {
        return RunLog.read(run).history("run");
    }

    private static Series of(Map<String, Series> curves, String key) {
        return Objects.requireNonNull(curves.get(key), key);
    }

    private static List<String> texts(RunHistory history, RunEvent.Kind kind) {
        return history.events().stream()
                .filter(e -> e.kind() == kind)
                .map(RunEvent::text)
                .toList();
    }

    @Test
    void the_curves_of_a_run_are_those_of_its_metrics() throws IOException {
        add(
                "metrics.jsonl",
                step(1, "5"),
                step(2, "4"),
                "{\"step\":2,\"eval_loss\":4.5,\"eval_perplexity\":90.0,\"eval_samples\":3}");
        RunHistory history = history();
        assertEquals(List.of(5.0, 4.0), of(history.curves(), "loss").min());
        assertEquals(List.of(200.0, 200.0), of(history.curves(), "speed").min());
        assertEquals("tokens", history.speedUnit());
        assertEquals(List.of(4.5), of(history.evaluations(), "eval_loss").min());
        assertEquals(List.of(2L), of(history.evaluations(), "eval_loss").steps());
        assertEquals(2, history.step());
        assertEquals(4, history.steps());
        assertEquals(RunHistory.State.STOPPED, history.state());
        assertEquals(Map.of(), history.more());
        assertEquals("4", history.settings().get("steps"));
    }

    @Test
    void a_run_that_goes_on_is_read_on_where_the_last_reading_ended() throws IOException {
        add("metrics.jsonl", step(1, "5"));
        Files.writeString(run.resolve("metrics.jsonl"), "{\"step\":2,\"lo", StandardOpenOption.APPEND);
        RunLog log = RunLog.read(run);
        assertEquals(1, log.history("run").step());
        assertFalse(log.readOn());
        add("metrics.jsonl", "ss\":3}", step(3, "2"), step(4, "1"));
        assertTrue(log.readOn());
        RunHistory history = log.history("run");
        assertEquals(List.of(5.0, 3.0, 2.0, 1.0), of(history.curves(), "loss").min());
        assertEquals(RunHistory.State.COMPLETE, history.state());
        assertEquals(RunLog.read(run).history("run"), history);
    }

    @Test
    void a_resumed_run_whose_files_were_cut_is_read_from_the_start() throws IOException {
        add("metrics.jsonl", step(1, "5"), step(2, "4"), step(3, "3"));
        RunLog log = RunLog.read(run);
        Files.delete(run.resolve("metrics.jsonl"));
        add("metrics.jsonl", step(1, "5"), step(2, "9"), step(3, "8"), step(4, "7"));
        Files.writeString(run.resolve("run.json"), MANIFEST.replace("]}", ", {\"first_step\": 2}]}"));
        Files.setLastModifiedTime(run.resolve("run.json"), FileTime.fromMillis(1));
        assertTrue(log.readOn());
        RunHistory history = log.history("run");
        assertEquals(List.of(5.0, 9.0, 8.0, 7.0), of(history.curves(), "loss").min());
        assertEquals(2, texts(history, RunEvent.Kind.SESSION).size());
    }

    @Test
    void a_run_whose_process_holds_its_lock_is_running() throws IOException {
        add("metrics.jsonl", step(1, "5"));
        try (FolderLock _ = FolderLock.of(run, Trainer.LOCK)) {
            assertEquals(RunHistory.State.RUNNING, history().state());
        }
        Files.createFile(run.resolve(Trainer.LOCK)); // as a killed process leaves it
        assertEquals(RunHistory.State.STOPPED, history().state());
    }

    @Test
    void losses_that_are_not_finite_are_one_event_for_each_row_of_steps() throws IOException {
        add("metrics.jsonl", step(1, "null"), step(2, "\"NaN\""), step(3, "1"), step(4, "null"));
        RunHistory history = history();
        assertEquals(3, history.notFinite());
        assertNull(history.lastLoss());
        List<RunEvent> events = history.events().stream()
                .filter(e -> e.kind() == RunEvent.Kind.NOT_FINITE)
                .toList();
        assertEquals(List.of(1L, 4L), events.stream().map(RunEvent::step).toList());
        assertEquals(List.of(2L, 4L), events.stream().map(RunEvent::last).toList());
    }

    @Test
    void skipped_steps_and_another_loss_scale_are_events() throws IOException {
        add(
                "metrics.jsonl",
                step(1, "1"),
                step(2, "1").replace("\"skipped\":false", "\"skipped\":true"),
                step(3, "1").replace("\"loss_scale\":1", "\"loss_scale\":0.5"));
        RunHistory history = history();
        assertEquals(1, history.skipped());
        assertEquals(1, texts(history, RunEvent.Kind.SKIPPED).size());
        assertEquals(List.of("loss scale 0.5, was 1"), texts(history, RunEvent.Kind.LOSS_SCALE));
    }

    @Test
    void the_map_has_the_largest_share_of_each_tensor_and_column() throws IOException {
        for (int step = 1; step <= 300; step++) {
            add("fp8_health.jsonl", tensor(step, "a", step == 40 ? 100 : 0, 1, 1, 0), tensor(step, "b", 0, 1, 1, 0));
        }
        Fp8Map map = history().fp8();
        assertEquals(4, map.width());
        assertEquals(76, map.columns().size());
        assertEquals(
                List.of("a", "b"), map.rows().stream().map(Fp8Map.Row::layer).toList());
        assertEquals(0.1, map.rows().getFirst().mostClipped());
        byte[] levels = Base64.getDecoder().decode(map.rows().getFirst().clipped());
        for (int i = 0; i < levels.length; i++) {
            assertEquals(i == 10 ? Fp8Map.level(0.1) : 1, levels[i] & 0xff, "column " + i);
        }
    }

    @Test
    void levels_of_shares_are_logarithms() {
        assertEquals(0, Fp8Map.level(Double.NaN));
        assertEquals(1, Fp8Map.level(0));
        assertEquals(2, Fp8Map.level(1e-9));
        assertEquals(2, Fp8Map.level(1e-7));
        assertEquals(255, Fp8Map.level(1));
        // what run-report.js makes of it
        for (double share : new double[] {0.5, 0.013, 2e-5}) {
            double back = Math.pow(10, 7 * ((Fp8Map.level(share) - 2) / 253.0 - 1));
            assertEquals(share, back, 0.04 * share);
        }
    }

    @Test
    void the_histories_are_of_the_tensors_that_lost_most_with_the_room_of_their_scales() throws IOException {
        for (String layer : List.of("a", "b", "c", "d", "e", "f", "g")) {
            add("fp8_health.jsonl", tensor(10, layer, layer.equals("e") ? 7 : 0, 3, 0.5, 4));
        }
        List<ScaleHistory> scales = history().scales();
        assertEquals(6, scales.size());
        assertEquals("e", scales.getFirst().layer());
        assertEquals(List.of(3.0), scales.getFirst().amax().min());
        assertEquals(List.of(224.0), scales.getFirst().room().min()); // 448 x 0.5
        assertEquals(4, scales.getFirst().oldest());
    }

    @Test
    void the_warnings_are_those_that_the_run_gave() throws IOException {
        add(
                "fp8_health.jsonl",
                tensor(10, "a", 20, 1, 1, 0), // 2 % clipped
                tensor(
                        10, "b", 0, 2000, 1,
                        3), // too large by more than 2, and in the next measurement its scale has stayed
                tensor(20, "a", 20, 1, 1, 0), // still, which needs no second warning
                tensor(20, "b", 0, 2000, 1, 13),
                tensor(20, "c", 0, 1, 1, 3)); // older than its history of 2, and far too small
        List<String> warnings = texts(history(), RunEvent.Kind.FP8);
        assertEquals(3, warnings.size(), warnings.toString());
        assertEquals("2.00% of a.input clipped: amax 1.000, its scale has room for 448.0", warnings.get(0));
        assertTrue(warnings.get(1).startsWith("the scale of b.input has stayed for 13 steps"), warnings.get(1));
        assertTrue(warnings.get(2).startsWith("the scale of c.input has stayed for 3 steps"), warnings.get(2));
    }

    @Test
    void a_guards_decision_is_an_event_and_keys_it_has_besides_are_shown_as_they_are() throws IOException {
        add(
                "guard.jsonl",
                "{\"step\":7,\"layer\":\"h.0\",\"product\":\"dgrad\",\"action\":\"demoted\",\"reason\":\"clipped\",\"to\":\"bf16\",\"x\":[1]}",
                "{\"action\":\"of no step\"}");
        RunHistory history = history();
        RunEvent event = history.events().stream()
                .filter(e -> e.kind() == RunEvent.Kind.GUARD)
                .findFirst()
                .orElseThrow();
        assertEquals("demoted h.0.dgrad: clipped", event.text());
        assertEquals(Map.of("to", "bf16", "x", "[1]"), event.more());
        assertTrue(history.notes().contains("One line of its files names no step; it is left out."));
    }

    @Test
    void a_guards_decision_is_a_sentence() throws IOException {
        add(
                "guard.jsonl",
                "{\"step\":7,\"decision\":\"demoted\",\"product\":\"h.0.dgrad\",\"node\":\"n:dgrad\",\"from\":\"delayed\",\"to\":\"bf16\","
                    + "\"trigger\":\"clipped\",\"value\":0.031,\"limit\":0.01,\"seeds\":{\"a\":1}}",
                "{\"step\":8,\"decision\":\"rolled_back\",\"spike\":9,\"what\":\"loss\",\"value\":null,\"limit\":2.5}");
        RunHistory history = history();
        assertEquals(
                List.of(
                        "demoted h.0.dgrad from delayed to bf16: clipped 0.0310 above 0.0100",
                        "rolled back: loss not finite"),
                texts(history, RunEvent.Kind.GUARD));
        assertEquals(Map.of("node", "n:dgrad"), history.events().get(1).more());
    }

    /** As after a rollback: the file is another one, and by the time of the next reading longer than before. */
    @Test
    void a_file_that_was_cut_and_has_grown_again_is_read_from_the_start() throws IOException {
        add("metrics.jsonl", step(1, "5"), step(2, "4"));
        RunLog log = RunLog.read(run);
        Path next = run.resolve("next");
        Files.writeString(next, String.join("\n", step(1, "5"), step(2, "3"), step(3, "2"), ""));
        Files.move(next, run.resolve("metrics.jsonl"), StandardCopyOption.REPLACE_EXISTING);
        assertTrue(log.readOn());
        assertEquals(
                List.of(5.0, 3.0, 2.0), of(log.history("run").curves(), "loss").min());
    }

    @Test
    void the_same_event_over_and_over_is_counted_and_does_not_grow_the_page() throws IOException {
        String[] lines = new String[1000];
        for (int i = 0; i < lines.length; i++) {
            lines[i] = "{\"step\":" + 2 * i + ",\"action\":\"a" + i + "\"}";
        }
        add("guard.jsonl", lines);
        RunHistory history = history();
        assertEquals(300, texts(history, RunEvent.Kind.GUARD).size());
        assertEquals(Map.of(RunEvent.Kind.GUARD, 700L), history.eventsLeft());
    }

    @Test
    void numbers_under_foreign_keys_are_curves_of_their_own_and_foreign_lines_do_no_harm() throws IOException {
        add(
                "metrics.jsonl",
                step(1, "1").replace("}", ",\"decoder.mean\":0.25,\"words\":\"x\",\"deep\":{\"a\":1}}"),
                "{\"step\":\"one\",\"loss\":1}",
                "{\"loss\":1}",
                "[1,2]",
                "null",
                "{\"step\":2}");
        add(
                "fp8_health.jsonl",
                "{\"step\":1}",
                "{\"step\":1,\"tensor\":\"t\",\"kind\":\"odd\",\"format\":\"FP3\",\"scale\":2}");
        RunHistory history = history();
        assertEquals(List.of("decoder.mean"), List.copyOf(history.more().keySet()));
        assertEquals(1, history.step());
        assertTrue(history.notes().contains("2 lines of its files name no step; they are left out."));
        assertEquals(2, history.fp8().rows().size());
        assertTrue(history.scales().getLast().room().isEmpty());
    }

    @Test
    void statistics_that_a_run_was_asked_for_are_curves_of_their_own() throws IOException {
        add(
                "debug.jsonl",
                "{\"step\":1,\"iteration\":0,\"layer\":\"h.0\",\"tensor\":\"activation\",\"stats\":{\"max\":3.5,\"std\":null}}",
                "{\"step\":3,\"iteration\":2,\"layer\":\"h.0\",\"tensor\":\"activation\",\"stats\":{\"max\":4.5}}");
        Map<String, Series> more = history().more();
        assertEquals(List.of("h.0 activation max"), List.copyOf(more.keySet()));
        assertEquals(List.of(3.5, 4.5), of(more, "h.0 activation max").min());
    }

    @Test
    void a_run_without_any_step_has_no_curves() throws IOException {
        RunHistory history = history();
        assertEquals(Map.of(), history.curves());
        assertTrue(history.smooth().isEmpty());
        assertEquals(List.of(), history.fp8().rows());
        assertEquals(1, history.events().size());
        assertTrue(Objects.requireNonNull(history.notes()).contains("The run has done no step yet."));
    }
}
