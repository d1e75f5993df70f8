package dev.octet.trainer.hook;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.trainer.config.DivergenceConfig;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class BuiltInHooksTest {
    @TempDir
    Path folder;

    private static final RunPlan PLAN = new RunPlan("cpu", "fp32", List.of("w"), 4, 0, 16, 16, List.of());
    private static final RunEnd END =
            new RunEnd(RunEnd.Reason.COMPLETED, 3, "", new RunEnd.Totals(3, 0, 1, 1, 0, 0, 0, 0));

    private static final class Control implements RunControl {
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
        return new StepReport(step, loss, Map.of(), 0.1, Double.NaN, false, 1, 8, 64, 0.5, 0.1, 99);
    }

    private void steps(long from, long to) throws IOException {
        MetricsFile metrics = new MetricsFile(folder.resolve("metrics.jsonl"));
        metrics.runStarted(start(from), new Control());
        for (long step = from; step <= to; step++) {
            metrics.afterStep(report(step, step / 4.0));
        }
        metrics.evaluated(new TrainingHook.EvaluationReport(to, 0.25, Map.of(), 8, 0.1));
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
                "{\"step\":2,\"loss\":0.5,\"lr\":0.1,\"grad_norm\":\"NaN\",\"loss_scale\":1.0,\"skipped\":false,\"samples\":8,"
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
    void a_watchdog_that_was_told_what_it_knew_goes_on_as_if_never_stopped() {
        DivergenceStop first = new DivergenceStop(new DivergenceConfig(3, 2));
        diverge(first, flatThen(7));
        DivergenceStop second = new DivergenceStop(new DivergenceConfig(3, 2));
        second.recall(first.remembered());
        assertEquals(RunEnd.Reason.DIVERGED, diverge(second, 7).reason);
    }
}
