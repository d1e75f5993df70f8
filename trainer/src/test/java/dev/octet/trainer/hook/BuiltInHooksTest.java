package dev.octet.trainer.hook;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.recipe.LinearTensor;
import dev.octet.trainer.config.Cadence;
import dev.octet.trainer.config.CheckpointConfig;
import dev.octet.trainer.config.DivergenceConfig;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class BuiltInHooksTest {
    @TempDir
    Path folder;

    private static final RunPlan PLAN =
            new RunPlan("cpu", "plain", "fp32", 0, List.of(), List.of("w"), 4, 0, 16, 16, List.of());
    private static final RunEnd END =
            new RunEnd(RunEnd.Reason.COMPLETED, 3, "", new RunEnd.Totals(3, 0, 1, 1, 0, 0, 0, 0));

    private static class Control implements RunControl {
        private RunEnd.@Nullable Reason reason;
        private String message = "";

        @Override
        public void stop(RunEnd.Reason why, String what) {
            reason = why;
            message = what;
        }

        @Override
        public void requestCheckpoint() {}
    }

    private TrainingHook.RunStart start(long firstStep) {
        return new TrainingHook.RunStart(folder, firstStep, 10, PLAN);
    }

    private static StepReport report(long step, double loss) {
        return new StepReport(
                step, loss, Map.of(), 0.1, Double.NaN, false, 1, 8, 64, 0.25, 0.5, 0.1, 99, Optional.empty());
    }

    private void steps(long from, long to) throws IOException {
        MetricsFile metrics = new MetricsFile(folder.resolve("metrics.jsonl"));
        metrics.runStarted(start(from), new Control());
        for (long step = from; step <= to; step++) {
            metrics.afterStep(report(step, step / 4.0));
        }
        metrics.evaluated(
                new TrainingHook.EvaluationReport(to, 0.25, Map.of(), OptionalDouble.of(Math.exp(0.25)), 8, 56, 0.1));
        metrics.runEnded(END);
    }

    private List<String> lines() throws IOException {
        return Files.readAllLines(folder.resolve("metrics.jsonl"));
    }

    @Test
    void metrics_have_a_line_for_each_step_and_evaluation() throws IOException {
        steps(1, 3);
        assertEquals(4, lines().size());
        assertEquals(
                "{\"step\":2,\"loss\":0.5,\"lr\":0.1,\"grad_norm\":null,\"loss_scale\":1.0,\"epoch\":0.25,\"skipped\":false,\"samples\":8,"
                    + "\"tokens\":64,\"seconds\":0.5,\"data_seconds\":0.1,\"tokens_per_second\":128.0,\"memory_bytes\":99}",
                lines().get(1));
        assertTrue(lines().getLast().startsWith("{\"step\":3,\"eval_loss\":0.25"));
    }

    @Test
    void a_resumed_run_replaces_the_lines_it_does_again() throws IOException {
        steps(1, 5);
        Files.writeString(folder.resolve("metrics.jsonl"), "{\"step\":6,\"lo", StandardOpenOption.APPEND);
        steps(3, 4);
        assertEquals(
                List.of("1", "2", "3", "4", "4"),
                lines().stream()
                        .map(l -> l.replaceAll("\\{\"step\":(\\d+).*", "$1"))
                        .toList());
    }

    private static Control diverge(DivergenceStop stop, double... losses) {
        Control control = new Control();
        stop.runStarted(new TrainingHook.RunStart(Path.of("run"), 1, 10, PLAN), control);
        for (double loss : losses) {
            stop.afterStep(report(1, loss));
        }
        return control;
    }

    private static double[] flatThen(double... more) {
        double[] losses = new double[20 + more.length];
        Arrays.fill(losses, 2.0);
        System.arraycopy(more, 0, losses, 20, more.length);
        return losses;
    }

    @Test
    void a_loss_far_above_its_mean_ends_the_run() {
        Control control = diverge(new DivergenceStop(new DivergenceConfig(3, 2)), flatThen(7, 7));
        assertEquals(RunEnd.Reason.DIVERGED, control.reason);
        assertEquals("loss 7.000 is above 3.0 times its running mean 2.000, 2 steps in a row", control.message);
        assertEquals(
                RunEnd.Reason.DIVERGED,
                diverge(new DivergenceStop(new DivergenceConfig(3, 1)), flatThen(Double.NaN)).reason);
    }

    @Test
    void one_high_loss_is_forgiven_where_two_are_asked_for() {
        assertNull(diverge(new DivergenceStop(new DivergenceConfig(3, 2)), flatThen(7, 2, 7, 2)).reason);
        assertNull(diverge(new DivergenceStop(new DivergenceConfig(0, 1)), flatThen(1e9)).reason);
        assertNull(diverge(new DivergenceStop(new DivergenceConfig(3, 1)), 1, 100).reason);
    }

    @Test
    void the_eleventh_loss_is_the_first_that_can_be_too_high() {
        double[] losses = new double[11];
        Arrays.fill(losses, 2);
        losses[10] = 100;
        assertEquals(RunEnd.Reason.DIVERGED, diverge(new DivergenceStop(new DivergenceConfig(3, 1)), losses).reason);
        losses[9] = 100;
        losses[10] = 2;
        assertNull(diverge(new DivergenceStop(new DivergenceConfig(3, 1)), losses).reason);
    }

    @Test
    void a_watchdog_that_was_told_what_it_knew_goes_on_as_if_never_stopped() {
        DivergenceStop first = new DivergenceStop(new DivergenceConfig(3, 2));
        diverge(first, flatThen(7));
        DivergenceStop second = new DivergenceStop(new DivergenceConfig(3, 2));
        second.recall(first.remembered());
        assertEquals(RunEnd.Reason.DIVERGED, diverge(second, 7).reason);
    }

    /** A tensor of 1000 elements under delayed scaling with a history of 16, its scale with room for 448. */
    private static Fp8Tensor tensor(long clipped, float amax) {
        return new Fp8Tensor(
                "fp8.a.input", "a", LinearTensor.INPUT, Float8Format.E4M3FN, 1000, clipped, 0, amax, 1, 16, 0);
    }

    private List<String> warnings(Fp8Health health, long step, Fp8Tensor tensor) {
        return health.report(step, List.of(tensor)).warnings().stream()
                .map(Fp8Warning::sentence)
                .toList();
    }

    private Fp8Health health() {
        return new Fp8Health(10, 95, folder.resolve("fp8_health.jsonl"));
    }

    @Test
    void clipping_is_told_once_until_it_has_been_right_again() {
        Fp8Health health = health();
        assertEquals(List.of(), warnings(health, 10, tensor(10, 500)), "one in a hundred is healthy");
        assertEquals(
                List.of("1.10% of a.input clipped: amax 500.0, its scale has room for 448.0"),
                warnings(health, 20, tensor(11, 500)));
        assertEquals(List.of(), warnings(health, 30, tensor(900, 500)));
        assertEquals(List.of(), warnings(health, 40, tensor(0, 400)));
        assertEquals(1, warnings(health, 50, tensor(11, 500)).size());
    }

    @Test
    void a_scale_that_stays_beside_amaxes_too_large_for_it_is_stale() {
        Fp8Health health = health();
        assertEquals(List.of(), warnings(health, 10, tensor(1, 1000)), "the step may change it");
        assertEquals(
                List.of("the scale of a.input has stayed for 20 steps: amax 1000, it has room for 448.0"),
                warnings(health, 20, tensor(1, 1000)));
        Fp8Health follows = health();
        warnings(follows, 10, tensor(1, 1000));
        follows.scaleUpdated(10, "fp8.a.input", 1, 2);
        assertEquals(List.of(), warnings(follows, 20, tensor(1, 1000)));
    }

    @Test
    void a_scale_with_too_much_room_is_stale_only_when_it_is_older_than_its_history() {
        Fp8Health health = health();
        health.scaleUpdated(4, "fp8.a.input", 1, 2);
        assertEquals(List.of(), warnings(health, 20, tensor(0, 1)));
        assertEquals(
                List.of("the scale of a.input has stayed for 26 steps: amax 1.000, it has room for 448.0"),
                warnings(health, 30, tensor(0, 1)));
        assertEquals(List.of(), warnings(health, 40, tensor(0, 300)), "a weight that does not change");
        assertEquals(List.of(), warnings(health, 50, tensor(0, 0)), "no gradient");
    }

    @Test
    void a_scale_of_the_tensor_itself_has_no_age() {
        Fp8Tensor t =
                new Fp8Tensor("fp8.a.input", "a", LinearTensor.INPUT, Float8Format.E4M3FN, 1000, 0, 0, 1, 1, 0, 0);
        Fp8Report report = health().report(90, List.of(t));
        assertEquals(0, report.oldestScale());
        assertEquals(List.of(), report.warnings());
    }

    @Test
    void health_is_measured_now_and_then_and_at_the_end() {
        assertEquals(
                List.of(10L, 20L, 90L, 95L),
                List.of(1L, 9L, 10L, 11L, 20L, 90L, 94L, 95L).stream()
                        .filter(health()::watchesFp8)
                        .toList());
        assertFalse(new Fp8Health(0, 95, folder.resolve("f")).watchesFp8(95));
    }

    @Test
    void the_worst_tensors_come_first() {
        Fp8Report report = health().report(10, List.of(tensor(1, 2), tensor(9, 3), tensor(5, 4)));
        assertEquals(
                List.of(3f, 4f), report.worst(2).stream().map(Fp8Tensor::amax).toList());
        assertEquals(0.005, report.clippedShare(), 1e-12);
    }

    @Test
    void checkpoints_are_asked_for_at_their_steps() {
        List<Long> asked = new ArrayList<>();
        CheckpointCadence cadence =
                new CheckpointCadence(new CheckpointConfig(Cadence.ofSteps(3), 0, 3, Optional.empty()), _ -> 0);
        long[] now = new long[1];
        cadence.runStarted(start(1), new Control() {
            @Override
            public void requestCheckpoint() {
                asked.add(now[0]);
            }
        });
        for (now[0] = 1; now[0] <= 10; now[0]++) {
            cadence.afterStep(report(now[0], 1));
        }
        assertEquals(List.of(3L, 6L, 9L), asked);
    }

    @Test
    void checkpoints_are_asked_for_at_the_ends_of_epochs() {
        List<Long> asked = new ArrayList<>();
        // three batches an epoch, two a step
        CheckpointCadence cadence = new CheckpointCadence(
                new CheckpointConfig(Cadence.EPOCH, 0, 3, Optional.empty()), s -> 2 * s / 3 - 2 * (s - 1) / 3);
        long[] now = new long[1];
        cadence.runStarted(start(1), new Control() {
            @Override
            public void requestCheckpoint() {
                asked.add(now[0]);
            }
        });
        for (now[0] = 1; now[0] <= 6; now[0]++) {
            cadence.afterStep(report(now[0], 1));
        }
        assertEquals(List.of(2L, 3L, 5L, 6L), asked);
    }

    @Test
    void a_checkpoint_is_asked_for_after_the_best_evaluation_so_far_also_in_a_resumed_run() {
        List<Long> asked = new ArrayList<>();
        BestCheckpoint best = new BestCheckpoint(new CheckpointConfig.Best("perplexity", false));
        Control control = new Control() {
            @Override
            public void requestCheckpoint() {
                asked.add(best.step().orElse(0));
            }
        };
        best.runStarted(start(1), control);
        assertTrue(best.step().isEmpty());
        assertEquals(Map.of(), best.remembered());
        double[] measures = {5, 4, Double.NaN, 4, 6};
        for (int i = 0; i < measures.length; i++) {
            best.evaluated(evaluation(i + 1, measures[i]));
        }
        assertEquals(List.of(1L, 2L), asked);
        BestCheckpoint resumed = new BestCheckpoint(new CheckpointConfig.Best("perplexity", false));
        resumed.recall(best.remembered());
        assertEquals(2, resumed.step().orElseThrow());
        resumed.evaluated(evaluation(6, 4.5));
        assertEquals(2, resumed.step().orElseThrow());
        resumed.evaluated(evaluation(7, 3.5));
        assertEquals(7, resumed.step().orElseThrow());
    }

    @Test
    void a_measure_that_evaluations_lack_is_named() {
        BestCheckpoint best = new BestCheckpoint(new CheckpointConfig.Best("accuracy", true));
        assertThrows(InvalidOptionException.class, () -> best.evaluated(evaluation(1, 2)));
        assertEquals(0.25, evaluation(1, 2).measure("rewards/margins").orElseThrow());
        assertEquals(9, evaluation(1, 2).measure("task_loss").orElseThrow());
        assertTrue(evaluation(1, 2).measure("task").isEmpty());
    }

    private static TrainingHook.EvaluationReport evaluation(long step, double perplexity) {
        return new TrainingHook.EvaluationReport(
                step, 1, Map.of("task", 9.0, "rewards/margins", 0.25), OptionalDouble.of(perplexity), 1, 1, 1);
    }

    @Test
    void checkpoints_are_asked_for_when_the_last_is_too_long_ago() {
        List<Long> asked = new ArrayList<>();
        long[] minute = new long[1];
        CheckpointCadence cadence = new CheckpointCadence(
                new CheckpointConfig(Cadence.NEVER, 30, 3, Optional.empty()),
                _ -> 0,
                () -> TimeUnit.MINUTES.toNanos(minute[0]));
        cadence.runStarted(start(1), new Control() {
            @Override
            public void requestCheckpoint() {
                asked.add(minute[0]);
            }
        });
        for (minute[0] = 10; minute[0] <= 100; minute[0] += 10) {
            cadence.afterStep(report(minute[0], 1));
            if (asked.contains(minute[0])) {
                cadence.checkpointWritten(new TrainingHook.CheckpointReport(minute[0], Path.of("c"), 1, 1));
            }
        }
        assertEquals(List.of(30L, 60L, 90L), asked);
    }

    @Test
    void the_running_loss_continues_from_the_metrics_of_the_steps_before() throws IOException {
        RunningLoss whole = new RunningLoss();
        List<String> lines = new ArrayList<>();
        for (int step = 1; step <= 6; step++) {
            whole.add(10.0 / step);
            lines.add("{\"step\":" + step + ",\"loss\":" + 10.0 / step + "}");
        }
        lines.add(2, "{\"step\":2,\"eval_loss\":99}");
        lines.add("{\"step\":7,\"loss\":\"NaN\"}");
        lines.add("{\"step\":8,\"lo");
        Files.write(folder.resolve(MetricsFile.NAME), lines);
        RunningLoss resumed = new RunningLoss();
        resumed.addEarlier(folder, 5);
        resumed.add(10.0 / 5);
        resumed.add(10.0 / 6);
        assertEquals(whole.value(), resumed.value(), 1e-12);
        RunningLoss none = new RunningLoss();
        none.addEarlier(folder.resolve("none"), 5);
        assertTrue(Double.isNaN(none.value()));
    }

    @Test
    void lines_of_a_growing_file_are_read_on_from_where_they_ended() throws IOException {
        Path file = Files.writeString(
                folder.resolve(MetricsFile.NAME),
                "{\"step\":1}\nnot JSON\n[2]\n\n{\"step\":3,\"x\":{\"y\":[]}}\n{\"step\":4,\"lo");
        List<Long> steps = new ArrayList<>();
        long next =
                StepLines.readFrom(0, file, line -> steps.add(line.get("step").asLong()));
        assertEquals(List.of(1L, 3L), steps);
        Files.writeString(file, "ss\":1}\n{\"step\":5}", StandardOpenOption.APPEND);
        next = StepLines.readFrom(next, file, line -> steps.add(line.get("step").asLong()));
        assertEquals(List.of(1L, 3L, 4L, 5L), steps);
        Files.write(file, new byte[] {'\n', (byte) 0xff, '\n'}, StandardOpenOption.APPEND);
        assertEquals(Files.size(file), StepLines.readFrom(next, file, line -> steps.add(-1L)));
        assertEquals(4, steps.size());
    }

    @Test
    void a_line_longer_than_a_run_writes_is_skipped() throws IOException {
        String line = "{\"step\":1,\"loss\":2,\"x\":\"" + "a".repeat(1 << 20) + "\"}\n{\"step\":2,\"loss\":3}\n";
        Files.writeString(folder.resolve(MetricsFile.NAME), line);
        List<Double> losses = new ArrayList<>();
        MetricsFile.read(folder, l -> losses.add(l.get("loss").asDouble()));
        assertEquals(List.of(3.0), losses);
    }

    @Test
    void the_pace_leaves_out_the_first_steps_and_is_not_disturbed_by_a_slow_one() {
        Pace pace = new Pace();
        pace.add(20);
        pace.add(4);
        assertTrue(pace.secondsPerStep().isEmpty());
        for (double seconds : new double[] {0.5, 0.4, 30, 0.6, 0.5}) {
            pace.add(seconds);
        }
        assertEquals(0.5, pace.secondsPerStep().orElseThrow());
        for (int i = 0; i < 100; i++) {
            pace.add(2); // older steps are forgotten
        }
        assertEquals(2, pace.secondsPerStep().orElseThrow());
    }
}
