package dev.octet.trainer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Runs that compute layers again: what they write is what plain runs write. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class RecomputedRunTest {
    private static final String LAYERS = "gradient_checkpointing: {layers: all}";
    private static final String[] WATCHED = {
        "gradient_accumulation: 2",
        "precision: {mode: fp8, amax_history_len: 4}",
        "fp8_health: {every: 1}",
        "debug: {all: {enabled: true, layers: {layer_types: [all]}, transformer_engine: {LogTensorStats: {enabled: true,"
                + " tensors: [activation, gradient, weight, output, wgrad, dgrad], stats: [mean, std, max]}}}}",
    };

    @TempDir
    Path folder;

    private Path run(String name, RunOptions options, String... lines) throws IOException {
        Path to = folder.resolve(name);
        try (Device device = CpuDevice.of(1);
                Trainer trainer = Trainer.of(
                        StackRun.of(3).with(WATCHED).with(lines).parts(), device)) {
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
        return Files.readString(run.resolve("metrics.jsonl")).replaceAll("\"[a-z_]*(second|memory)[a-z_]*\":[-0-9.E]+,?", "");
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
        Path mixed = run("mixed", RunOptions.defaults().withMaxSteps(3).resuming(), "gradient_checkpointing: {every: 2}");
        assertEquals(metrics(plain), metrics(mixed));
    }

    @Test
    void a_run_does_not_go_on_with_activations_in_other_types() throws IOException {
        run("run", RunOptions.defaults().withMaxSteps(2));
        InvalidOptionException e = assertThrows(
                InvalidOptionException.class,
                () -> run("run", RunOptions.defaults().withMaxSteps(4).resuming(), "activations: fp8"));
        assertTrue(e.getMessage().contains("activations was (absent) and is fp8"), e.getMessage());
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
                InvalidOptionException.class, () -> run("refused", RunOptions.defaults().withMaxSteps(1), line));
        assertTrue(e.getMessage().contains(message), e.getMessage());
    }
}
