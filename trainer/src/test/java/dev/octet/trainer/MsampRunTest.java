package dev.octet.trainer;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.checkpoint.CheckpointFolder;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.hook.RunEnd;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Runs in MS-AMP's levels. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class MsampRunTest {
    @TempDir
    Path folder;

    private static TrainingParts parts(String precision, String... more) {
        List<String> lines = new ArrayList<>(List.of(more));
        lines.add("precision: " + precision);
        return SmallRun.parts(SmallRun.with(lines.toArray(String[]::new)));
    }

    private static RunEnd run(TrainingParts parts, Path folder, RunOptions options, int threads) throws IOException {
        try (Device device = CpuDevice.of(threads);
                Trainer trainer = Trainer.of(parts, device)) {
            return trainer.run(folder, options);
        }
    }

    private static Map<String, byte[]> files(Path run) throws IOException {
        Map<String, byte[]> files = new TreeMap<>();
        try (Stream<Path> all = Files.list(new CheckpointFolder(run).path(40))) {
            for (Path file : all.toList()) {
                files.put(file.getFileName().toString(), Files.readAllBytes(file));
            }
        }
        return files;
    }

    private static double lastLoss(Path run) throws IOException {
        double last = Double.NaN;
        for (String line : Files.readAllLines(run.resolve("metrics.jsonl"))) {
            JsonNode node = new ObjectMapper().readTree(line);
            last = node.has("loss") ? node.get("loss").asDouble() : last;
        }
        return last;
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "{mode: msamp}",
                "{mode: msamp, opt_level: O1}",
                "{mode: msamp, opt_level: O3, base: fp32}",
                "{mode: msamp, compat: msamp, base: fp16}",
                "{mode: msamp, use_te: true}"
            })
    void a_resumed_run_on_more_threads_has_the_bytes_of_one_in_one_piece(String precision) throws IOException {
        TrainingParts parts = parts(precision, "gradient_accumulation: 2");
        Path whole = folder.resolve("whole");
        run(parts, whole, RunOptions.defaults(), 1);
        Path pieces = folder.resolve("pieces");
        run(parts, pieces, RunOptions.defaults().withMaxSteps(7), 3);
        run(parts, pieces, RunOptions.defaults().resuming().withMaxSteps(13), 2);
        run(parts, pieces, RunOptions.defaults().resuming(), 3);
        Map<String, byte[]> first = files(whole);
        Map<String, byte[]> second = files(pieces);
        assertEquals(first.keySet(), second.keySet());
        first.forEach((name, bytes) -> assertArrayEquals(bytes, second.get(name), name));
        assertEquals(lastLoss(whole), lastLoss(pieces));
    }

    @ParameterizedTest
    @ValueSource(strings = {"O1", "O2", "O3"})
    void every_level_learns_as_bf16_does(String level) throws IOException {
        run(parts("{mode: bf16}"), folder.resolve("bf16"), RunOptions.defaults(), 2);
        run(parts("{mode: msamp, opt_level: " + level + "}"), folder.resolve("msamp"), RunOptions.defaults(), 2);
        double plain = lastLoss(folder.resolve("bf16"));
        double msamp = lastLoss(folder.resolve("msamp"));
        assertTrue(plain < 0.5, () -> "bf16 ends at " + plain);
        assertTrue(Math.abs(msamp - plain) < 0.05, () -> level + " ends at " + msamp + ", bf16 at " + plain);
    }

    @Test
    void o3_computes_what_o2_computes_and_keeps_its_fp8_weights_between_micro_batches() throws IOException {
        run(parts("{mode: msamp, opt_level: O2}"), folder.resolve("o2"), RunOptions.defaults(), 2);
        run(parts("{mode: msamp, opt_level: O3}"), folder.resolve("o3"), RunOptions.defaults(), 2);
        assertEquals(lastLoss(folder.resolve("o2")), lastLoss(folder.resolve("o3")));
    }

    @ParameterizedTest
    @ValueSource(
            strings = {"opt_level: O1, use_te: true", "opt_level: O2", "opt_level: O3", "opt_level: O2, compat: msamp"})
    void layers_computed_again_leave_every_bit_and_take_less_memory(String keys) throws IOException {
        String[] lines = {
            "precision: {mode: msamp, " + keys + "}", "gradient_accumulation: 2", "checkpoint: {every: 20}"
        };
        RunOptions twenty = RunOptions.defaults().withMaxSteps(20);
        run(StackRun.of(3).with(lines).parts(), folder.resolve("plain"), twenty, 2);
        run(
                StackRun.of(3)
                        .with(lines)
                        .with("gradient_checkpointing: {layers: all}")
                        .parts(),
                folder.resolve("again"),
                twenty,
                2);
        assertEquals(lastLoss(folder.resolve("plain")), lastLoss(folder.resolve("again")));
        for (String file : List.of("parameters.safetensors", "state.safetensors")) {
            assertArrayEquals(
                    Files.readAllBytes(new CheckpointFolder(folder.resolve("plain"))
                            .path(20)
                            .resolve(file)),
                    Files.readAllBytes(new CheckpointFolder(folder.resolve("again"))
                            .path(20)
                            .resolve(file)),
                    file);
        }
        JsonNode manifest = new ObjectMapper()
                .readTree(folder.resolve("again").resolve("run.json").toFile());
        long plain = manifest.findValue("activation_bytes_plain").asLong();
        long again = manifest.findValue("activation_bytes").asLong();
        assertTrue(again < 0.8 * plain, () -> again + " of " + plain + " bytes");
    }

    @Test
    void the_manifest_names_the_level_that_was_asked_for() throws IOException {
        run(parts("{mode: msamp, opt_level: O3}"), folder, RunOptions.defaults().withMaxSteps(1), 1);
        JsonNode settings =
                new ObjectMapper().readTree(folder.resolve("run.json").toFile());
        assertEquals("O3", settings.findValue("optimizer.states.opt_level").asText());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "optimizer: {type: sgd, lr: 0.1} | {mode: msamp} | MS-AMP has Adam and AdamW, not sgd",
                "optimizer: {states: {engine: te}} | {mode: msamp} | precision.mode: msamp says itself how states are"
                        + " kept",
                "seed: 1 | {mode: msamp, recipe: delayed} | mode msamp has no recipe",
                "seed: 1 | {mode: fp8, opt_level: O2} | mode fp8 has no opt_level",
                "seed: 1 | {mode: msamp, opt_level: O4} | O4",
                "fp8_health: {every: 5} | {mode: msamp} | mode msamp casts weights from scaled F16, which these"
                        + " measurements do not read",
                "guard: {window: 8} | {mode: msamp} | mode msamp has no level to demote a product to: its weights are"
                        + " there in few bits only"
            })
    void what_contradicts_the_mode_is_refused_with_the_reason(String line, String precision, String what) {
        InvalidOptionException e = assertThrows(InvalidOptionException.class, () -> parts(precision, line));
        assertTrue(requireNonNull(e.getMessage()).contains(what), e::getMessage);
    }

    @ParameterizedTest
    @ValueSource(strings = {"min-scale", "ddp", "legacy", "zero"})
    void four_ranks_learn_by_every_reduction_and_resume_bit_for_bit(String reduction) throws IOException {
        TrainingParts parts =
                parts("{mode: msamp, ranks: 4, gradient_reduction: " + reduction + "}", "gradient_accumulation: 8");
        run(parts, folder.resolve("whole"), RunOptions.defaults(), 1);
        run(parts, folder.resolve("pieces"), RunOptions.defaults().withMaxSteps(17), 2);
        run(parts, folder.resolve("pieces"), RunOptions.defaults().resuming(), 2);
        assertEquals(lastLoss(folder.resolve("whole")), lastLoss(folder.resolve("pieces")));
        assertTrue(lastLoss(folder.resolve("whole")) < 0.5, () -> reduction + " does not learn");
    }

    @Test
    void ranks_share_micro_batches_evenly_or_are_refused_and_one_rank_reduces_nothing() {
        InvalidOptionException uneven = assertThrows(
                InvalidOptionException.class, () -> parts("{mode: msamp, ranks: 4}", "gradient_accumulation: 6"));
        assertTrue(requireNonNull(uneven.getMessage()).contains("4 ranks cannot share 6 micro-batches a step evenly"));
        assertEquals("give gradient_accumulation: 8", uneven.fix());
        InvalidOptionException alone =
                assertThrows(InvalidOptionException.class, () -> parts("{mode: msamp, gradient_reduction: ddp}"));
        assertTrue(requireNonNull(alone.getMessage()).contains("a run on one rank averages no gradients"));
    }
}
