package dev.octet.trainer;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.checkpoint.CheckpointFolder;
import dev.octet.trainer.config.Settings;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.reference.ReferenceDevice;
import dev.octet.trainer.reduction.GradientReduction;
import dev.octet.trainer.reduction.RankGradient;
import dev.octet.trainer.reduction.ReductionRule;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Runs that simulate data-parallel ranks. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class RanksRunTest {
    @TempDir
    Path folder;

    private static TrainingParts parts(String precision) {
        return SmallRun.parts(SmallRun.with("steps: 24", "gradient_accumulation: 4", "precision: " + precision));
    }

    private static TrainingParts ranks(GradientReduction reduction, String more) {
        return parts("{mode: fp32, ranks: 4, gradient_reduction: " + reduction.text() + more + "}");
    }

    private static void run(TrainingParts parts, Path folder, RunOptions options, int threads) throws IOException {
        try (Device device = CpuDevice.of(threads);
                Trainer trainer = Trainer.of(parts, device)) {
            trainer.run(folder, options);
        }
    }

    private static Map<String, byte[]> files(Path run) throws IOException {
        Map<String, byte[]> files = new TreeMap<>();
        try (Stream<Path> all = Files.list(new CheckpointFolder(run).path(24))) {
            for (Path file : all.toList()) {
                files.put(file.getFileName().toString(), Files.readAllBytes(file));
            }
        }
        return files;
    }

    private static List<JsonNode> steps(Path run) throws IOException {
        List<JsonNode> steps = new ArrayList<>();
        for (String line : Files.readAllLines(run.resolve("metrics.jsonl"))) {
            JsonNode node = new ObjectMapper().readTree(line);
            if (node.has("loss")) {
                steps.add(node);
            }
        }
        return steps;
    }

    private static Map<String, float[]> gradients(TrainingParts parts, Device device) throws IOException {
        Map<String, float[]> all = new TreeMap<>();
        try (device;
                Trainer trainer = Trainer.of(parts, device)) {
            trainer.step(1, g -> g.names().forEach(n -> all.put(n, g.read(n))), false);
        }
        return all;
    }

    @ParameterizedTest
    @EnumSource(
            names = {"F32", "NCCL"},
            mode = EnumSource.Mode.EXCLUDE)
    void gradients_are_those_of_one_process_within_the_rounding_of_E4M3_and_biases_to_the_bits_of_F32(
            GradientReduction reduction) throws IOException {
        Map<String, float[]> plain = gradients(parts("{mode: fp32}"), CpuDevice.of(2));
        for (Device device : List.of(CpuDevice.of(2), new ReferenceDevice())) {
            Map<String, float[]> averaged = gradients(ranks(reduction, ""), device);
            assertEquals(plain.keySet(), averaged.keySet());
            plain.forEach((name, g) -> {
                float[] got = requireNonNull(averaged.get(name));
                float amax = RankGradient.amax(g);
                float largest = RankGradient.amax(got);
                boolean matrix = name.startsWith("w");
                for (int i = 0; i < g.length; i++) {
                    // ranks whose gradients agree leave the range of E4M3 together: their sum stays at its end
                    boolean saturated =
                            matrix && Math.abs(got[i]) == largest && g[i] * got[i] > 0 && Math.abs(g[i]) > largest;
                    if (!saturated) {
                        assertEquals(g[i], got[i], amax * (matrix ? 0.13f : 2e-6f), name + " " + i);
                    }
                }
                if (matrix) {
                    assertFalse(Arrays.equals(g, got), name + " was rounded");
                }
            });
        }
    }

    @ParameterizedTest
    @EnumSource(
            names = {"F32", "NCCL"},
            mode = EnumSource.Mode.EXCLUDE)
    void a_run_in_pieces_on_other_threads_is_the_whole_run_byte_for_byte_mu_included(GradientReduction reduction)
            throws IOException {
        TrainingParts parts = ranks(reduction, ", auto_scale: true");
        Path whole = folder.resolve("whole");
        run(parts, whole, RunOptions.defaults(), 1);
        Path pieces = folder.resolve("pieces");
        run(parts, pieces, RunOptions.defaults().withMaxSteps(7), 2);
        run(parts, pieces, RunOptions.defaults().resuming(), 3);
        Map<String, byte[]> first = files(whole);
        Map<String, byte[]> second = files(pieces);
        assertEquals(first.keySet(), second.keySet());
        first.forEach((name, bytes) -> assertArrayEquals(bytes, second.get(name), name));
        JsonNode last = steps(pieces).getLast();
        assertEquals(24, steps(pieces).size());
        assertTrue(last.get("reduction_saturated").asDouble() >= 0);
        assertNotEquals(0.5, last.get("reduction_pre_scale_max").asDouble(), "mu moved from 1 / √4");
    }

    @ParameterizedTest
    @ValueSource(strings = {"", ", auto_scale: false"})
    void the_loss_falls_as_without_ranks(String more) throws IOException {
        run(parts("{mode: fp32}"), folder.resolve("plain"), RunOptions.defaults(), 2);
        run(ranks(GradientReduction.MIN_SCALE, more), folder.resolve("ranks"), RunOptions.defaults(), 2);
        List<JsonNode> plain = steps(folder.resolve("plain"));
        List<JsonNode> ranks = steps(folder.resolve("ranks"));
        assertEquals(plain.getFirst().get("loss"), ranks.getFirst().get("loss"));
        double expected = plain.getLast().get("loss").asDouble();
        assertEquals(expected, ranks.getLast().get("loss").asDouble(), 0.03 * expected);
        assertFalse(plain.getLast().has("reduction_saturated"));
    }

    @ParameterizedTest
    @EnumSource(
            names = {"F32", "NCCL"},
            mode = EnumSource.Mode.EXCLUDE)
    void the_loss_falls_in_mode_msamp_with_several_micro_batches_a_rank_and_resumes_to_the_byte(
            GradientReduction reduction) throws IOException {
        String precision = "{mode: msamp, base: fp32, ranks: 2, gradient_reduction: " + reduction.text() + "}";
        run(parts("{mode: msamp, base: fp32}"), folder.resolve("plain"), RunOptions.defaults(), 2);
        Path whole = folder.resolve("whole");
        run(parts(precision), whole, RunOptions.defaults(), 2);
        Path pieces = folder.resolve("pieces");
        run(parts(precision), pieces, RunOptions.defaults().withMaxSteps(5), 1);
        run(parts(precision), pieces, RunOptions.defaults().resuming(), 2);
        Map<String, byte[]> second = files(pieces);
        files(whole).forEach((name, bytes) -> assertArrayEquals(bytes, second.get(name), name));
        double expected = steps(folder.resolve("plain")).getLast().get("loss").asDouble();
        assertEquals(expected, steps(whole).getLast().get("loss").asDouble(), 0.05 * expected);
    }

    @Test
    void gradients_between_micro_batches_are_rounded_with_one_scale_or_each_with_its_own() {
        for (GradientReduction reduction : List.of(GradientReduction.MIN_SCALE, GradientReduction.ZERO)) {
            List<float[]> ranks = List.of(new float[] {1.03f, -0.51f}, new float[] {0.001953125f, 0.000003f});
            float largest = RankGradient.amax(ranks);
            ranks.forEach(g -> RankGradient.round(ReductionRule.of(reduction, 2), g, largest));
            assertArrayEquals(new float[] {1, -0.5f}, ranks.get(0));
            // 2^8 makes 0.000003 vanish below half of 2^-9; a scale of its own keeps it
            assertEquals(reduction == GradientReduction.ZERO, ranks.get(1)[1] == 0);
            assertEquals(0.001953125f, ranks.get(1)[0]);
        }
        float[] bad = {Float.NaN, 0.3f};
        RankGradient.round(ReductionRule.of(GradientReduction.ZERO, 1), bad, Float.NaN);
        assertEquals(0.3f, bad[1]);
    }

    @Test
    void mu_is_automatic_under_min_scale_as_in_the_paper_and_stays_where_a_shipped_reduction_has_none() {
        assertTrue(parts("{mode: fp32, ranks: 2}")
                .config()
                .precision()
                .ranks()
                .automatic()
                .isPresent());
        for (String shipped : List.of("compat: msamp", "gradient_reduction: ddp", "auto_scale: false")) {
            assertTrue(parts("{mode: msamp, ranks: 2, " + shipped + "}")
                    .config()
                    .precision()
                    .ranks()
                    .automatic()
                    .isEmpty());
        }
    }

    @Test
    void ranks_that_do_not_share_out_the_micro_batches_are_refused() {
        assertEquals(
                "3 ranks cannot share 4 micro-batches a step evenly",
                assertThrows(InvalidOptionException.class, () -> parts("{mode: fp32, ranks: 3}"))
                        .what());
        assertEquals(
                "a run on one rank averages no gradients",
                assertThrows(InvalidOptionException.class, () -> parts("{mode: fp32, gradient_reduction: ddp}"))
                        .what());
    }

    @Test
    void another_reduction_does_not_resume_and_runs_without_ranks_have_no_such_settings() throws IOException {
        Path run = folder.resolve("run");
        run(ranks(GradientReduction.DDP, ""), run, RunOptions.defaults().withMaxSteps(3), 2);
        InvalidOptionException refused = assertThrows(
                InvalidOptionException.class,
                () -> run(
                        ranks(GradientReduction.ZERO, ""),
                        run,
                        RunOptions.defaults().resuming(),
                        2));
        assertTrue(refused.what().contains("precision.gradient_reduction was ddp and is zero"), refused.what());
        assertTrue(Settings.of(parts("{mode: fp32}").config()).keySet().stream()
                .noneMatch(key -> key.contains("ranks") || key.contains("reduction")));
    }
}
