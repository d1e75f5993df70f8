package dev.octet.trainer;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.checkpoint.CheckpointFile;
import dev.octet.trainer.checkpoint.CheckpointFolder;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import java.io.IOException;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Runs that compute layers again: what they write is what plain runs write. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class RecomputedRunTest {
    private static final String LAYERS = "gradient_checkpointing: {layers: all}";
    private static final String[] WATCHED = {
        "gradient_accumulation: 2",
        "precision: {mode: fp8, amax_history_len: 4}",
        "fp8_health: {every: 1}",
        "debug: {all: {enabled: true, layers: {layer_types: [all]}, transformer_engine: {LogTensorStats: {enabled:"
                + " true, tensors: [activation, gradient, weight, output, wgrad, dgrad], stats: [mean, std, max]}}}}",
    };

    @TempDir
    Path folder;

    private Path run(String name, RunOptions options, String... lines) throws IOException {
        Path to = folder.resolve(name);
        try (Device device = CpuDevice.of(1);
                Trainer trainer =
                        Trainer.of(StackRun.of(3).with(WATCHED).with(lines).parts(), device)) {
            trainer.run(to, options);
        }
        return to;
    }

    private static String health(Path run) throws IOException {
        String text = Files.readString(run.resolve("fp8_health.jsonl"));
        assertFalse(text.isEmpty());
        return text;
    }

    private static String statistics(Path run) throws IOException {
        String text = Files.readString(run.resolve("debug.jsonl"));
        assertFalse(text.isEmpty());
        return text;
    }

    /** Losses and norms of a run's steps, without its times. */
    private static String metrics(Path run) throws IOException {
        return Files.readString(run.resolve("metrics.jsonl"))
                .replaceAll("\"[a-z_]*(second|memory)[a-z_]*\":[-0-9.E]+,?", "");
    }

    @Test
    void health_and_losses_are_those_of_a_plain_run_and_the_manifest_says_what_is_saved() throws IOException {
        RunOptions six = RunOptions.defaults().withMaxSteps(6);
        Path plain = run("plain", six);
        Path again = run("again", six, LAYERS);
        assertEquals(metrics(plain), metrics(again));
        assertEquals(health(plain), health(again));
        assertEquals(statistics(plain), statistics(again));
        String manifest = Files.readString(again.resolve("run.json"));
        assertTrue(manifest.contains("\"gradient_checkpointing.layers\" : \"all\""), manifest);
        assertTrue(manifest.contains("\"activation_bytes_plain\""), manifest);
        String before = Files.readString(plain.resolve("run.json"));
        assertFalse(before.contains("gradient_checkpointing") || before.contains("activation_bytes"), before);
    }

    @Test
    void a_run_goes_on_with_other_settings_of_gradient_checkpointing() throws IOException {
        Path plain = run("plain", RunOptions.defaults().withMaxSteps(6));
        run("mixed", RunOptions.defaults().withMaxSteps(3), LAYERS);
        Path mixed =
                run("mixed", RunOptions.defaults().withMaxSteps(3).resuming(), "gradient_checkpointing: {every: 2}");
        assertEquals(metrics(plain), metrics(mixed));
    }

    /** Everything of the last checkpoint, and the metrics. */
    private Map<String, String> contents(String name, String... lines) throws IOException {
        Path run = folder.resolve(name);
        try (Device device = CpuDevice.of(1);
                Trainer trainer = Trainer.of(StackRun.of(3).with(lines).parts(), device)) {
            trainer.run(run, RunOptions.defaults().withMaxSteps(4));
        }
        Map<String, String> all = new TreeMap<>();
        try (CheckpointFile file = new CheckpointFolder(run).open(4)) {
            file.state().parameters().forEach((n, t) -> all.put("weight " + n, bytes(t)));
            file.state().state().forEach((n, t) -> all.put("state " + n, bytes(t)));
        }
        all.put("metrics", metrics(run));
        return all;
    }

    private static String bytes(Tensor t) {
        return Arrays.toString(t.bytes().toArray(ValueLayout.JAVA_BYTE));
    }

    @ParameterizedTest
    @ValueSource(strings = {"O1", "O2", "O3"})
    void weights_codes_and_moments_of_msamp_are_those_of_a_plain_run(String level) throws IOException {
        String precision = "precision: {mode: msamp, opt_level: " + level + "}";
        String[] lines = {precision, "gradient_accumulation: 2", "checkpoint: {every: 4}"};
        assertEquals(contents("plain", lines), contents("again", precision, lines[1], lines[2], LAYERS));
    }

    @Test
    void the_guard_decides_as_in_a_plain_run() throws IOException {
        String[] guarded = {
            "precision: {mode: fp8, recipe: delayed, amax_history_len: 2}",
            "guard: {every: 2, warm_up: 4, quiet: 6, amax_jump: {demote: 8}, spike: {window: 8, snapshot_every: 5}}"
        };
        Map<String, Path> runs = new TreeMap<>();
        for (String name : List.of("plain", "again")) {
            StackRun stack = StackRun.of(3).with(guarded).rows((row, x) -> {
                for (int i = 0; row == 100 && i < x.length; i++) {
                    x[i] *= 1000;
                }
            });
            Path to = folder.resolve(name);
            try (Device device = CpuDevice.of(1);
                    Trainer trainer = Trainer.of(
                            name.equals("plain")
                                    ? stack.parts()
                                    : stack.with(LAYERS).parts(),
                            device)) {
                trainer.run(to, RunOptions.defaults().withMaxSteps(20));
            }
            runs.put(name, to);
        }
        Path plain = requireNonNull(runs.get("plain"));
        Path again = requireNonNull(runs.get("again"));
        String decisions = Files.readString(plain.resolve("guard.jsonl"));
        assertTrue(decisions.contains("demote"), decisions);
        assertEquals(decisions, Files.readString(again.resolve("guard.jsonl")));
        assertEquals(metrics(plain), metrics(again));
    }

    @ParameterizedTest
    @CsvSource({
        "NaN, mode: bf16, blocks.1.up",
        "1e30, mode: bf16, blocks.1.down",
        "NaN, mode: fp8, blocks.1.down",
        "NaN, 'mode: fp8, recipe: current', blocks.2.up",
        "1e30, mode: fp32, blocks.0.up",
    })
    void what_is_not_finite_is_found_in_the_same_node(float factor, String precision, String module)
            throws IOException {
        String expected = stopped("plain", factor, precision, module);
        assertTrue(expected.contains("first in node 'blocks."), expected);
        assertEquals(expected, stopped("again", factor, precision, module, LAYERS));
    }

    private String stopped(String name, float factor, String precision, String module, String... lines)
            throws IOException {
        StackRun stack = StackRun.of(3)
                .with("on_non_finite: stop", "precision: {" + precision + "}")
                .with(lines)
                .weights((weight, w) -> {
                    for (int i = 0; weight.equals(module + ".weight") && i < w.length; i++) {
                        w[i] = w[i] * factor * factor;
                    }
                });
        try (Device device = CpuDevice.of(1);
                Trainer trainer = Trainer.of(stack.parts(), device)) {
            return trainer.run(folder.resolve(name), RunOptions.defaults().withMaxSteps(2))
                    .message();
        }
    }

    @Test
    void a_run_does_not_go_on_with_activations_in_other_types() throws IOException {
        run("run", RunOptions.defaults().withMaxSteps(2));
        InvalidOptionException e = assertThrows(
                InvalidOptionException.class,
                () -> run("run", RunOptions.defaults().withMaxSteps(4).resuming(), "activations: fp8"));
        assertTrue(requireNonNull(e.getMessage()).contains("activations was (absent) and is fp8"), e.getMessage());
    }

    @Test
    void what_contradicts_itself_or_fits_no_model_is_refused() {
        assertRefused("gradient_checkpointing: {layers: all, budget: 4GB}", "layers and budget are both given");
        assertRefused("gradient_checkpointing: {}", "nothing says what is computed again");
        assertRefused("gradient_checkpointing: {budget: much}", "'much' is not a size in bytes");
        assertRefused("gradient_checkpointing: {every: 0}", "every");
        assertRefused("gradient_checkpointing: {match: attention}", "is in the name of none of the");
        assertRefused("gradient_checkpointing: {budget: 1kB}", "the budget is 1000");
        assertRefused("activations: int4", "unknown value 'int4'");
    }

    private void assertRefused(String line, String message) {
        InvalidOptionException e = assertThrows(
                InvalidOptionException.class,
                () -> run("refused", RunOptions.defaults().withMaxSteps(1), line));
        assertTrue(requireNonNull(e.getMessage()).contains(message), e.getMessage());
    }
}
