package dev.octet.trainer;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.ModelFile;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.checkpoint.CheckpointFolder;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.hook.RunEnd;
import dev.octet.trainer.hook.RunPlan;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Whole runs with each optimizer and with schedules of other libraries. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class OptimizerRunTest {
    @TempDir
    Path folder;

    private static TrainingParts parts(String... lines) {
        return SmallRun.parts(SmallRun.with(lines));
    }

    private static RunEnd run(TrainingParts parts, Path folder, RunOptions options, int threads) throws IOException {
        try (Device device = CpuDevice.of(threads);
                Trainer trainer = Trainer.of(parts, device)) {
            return trainer.run(folder, options);
        }
    }

    private static RunPlan plan(TrainingParts parts) throws IOException {
        try (Device device = CpuDevice.of(1);
                Trainer trainer = Trainer.of(parts, device)) {
            return trainer.plan();
        }
    }

    private static Map<String, byte[]> files(Path run, long step) throws IOException {
        Map<String, byte[]> files = new TreeMap<>();
        try (Stream<Path> all = Files.list(new CheckpointFolder(run).path(step))) {
            for (Path file : all.toList()) {
                files.put(file.getFileName().toString(), Files.readAllBytes(file));
            }
        }
        return files;
    }

    private static List<Double> numbers(Path run, String name) throws IOException {
        List<Double> all = new ArrayList<>();
        for (String line : Files.readAllLines(run.resolve("metrics.jsonl"))) {
            JsonNode node = new ObjectMapper().readTree(line);
            if (node.has(name)) {
                all.add(node.get(name).asDouble());
            }
        }
        return all;
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "{type: lion, lr: 0.003, weight_decay: 0.1}",
                "{type: adagrad, lr: 0.05}",
                "{type: lamb, lr: 0.02}",
                "{type: lamb, formula: deepspeed, lr: 0.02}",
                "{type: adafactor, lr: 0.02, beta1: 0.9}",
                "{type: adafactor, formula: torch}",
                "{type: muon, lr: 0.02, match: [w1, w2], adamw: {lr: 0.01}}",
            })
    void a_run_in_pieces_leaves_the_bytes_of_the_whole_and_its_loss_falls(String optimizer) throws IOException {
        TrainingParts parts = parts("steps: 40", "optimizer: " + optimizer);
        Path whole = folder.resolve("whole");
        run(parts, whole, RunOptions.defaults(), 1);
        Path pieces = folder.resolve("pieces");
        run(parts, pieces, RunOptions.defaults().withMaxSteps(7), 3);
        run(parts, pieces, RunOptions.defaults().resuming().withMaxSteps(12), 2);
        run(parts, pieces, RunOptions.defaults().resuming(), 3);
        Map<String, byte[]> first = files(whole, 40);
        Map<String, byte[]> second = files(pieces, 40);
        assertEquals(first.keySet(), second.keySet());
        first.forEach((name, bytes) -> assertArrayEquals(bytes, second.get(name), name));
        List<Double> losses = numbers(whole, "loss");
        assertTrue(losses.getLast() < 0.9 * losses.getFirst(), losses.toString());
    }

    @Test
    void a_run_with_one_cycle_goes_on_with_its_momentum() throws IOException {
        TrainingParts parts = parts(
                "steps: 20",
                "schedule: {type: OneCycle, cycle_min_lr: 0.001, cycle_max_lr: 0.02, cycle_first_step_size: 6}");
        Path whole = folder.resolve("whole");
        run(parts, whole, RunOptions.defaults(), 1);
        Path pieces = folder.resolve("pieces");
        run(parts, pieces, RunOptions.defaults().withMaxSteps(5), 1);
        run(parts, pieces, RunOptions.defaults().resuming(), 1);
        Map<String, byte[]> second = files(pieces, 20);
        files(whole, 20).forEach((name, bytes) -> assertArrayEquals(bytes, second.get(name), name));
        Path fixed = folder.resolve("fixed");
        run(
                parts(
                        "steps: 20",
                        "schedule: {type: OneCycle, cycle_min_lr: 0.001, cycle_max_lr: 0.02,"
                                + " cycle_first_step_size: 6, cycle_momentum: false}"),
                fixed,
                RunOptions.defaults(),
                1);
        assertEquals(numbers(whole, "lr"), numbers(fixed, "lr"));
        assertTrue(!numbers(whole, "loss").equals(numbers(fixed, "loss")), "momentum has no effect");
    }

    @Test
    void metrics_have_the_rates_of_the_schedule() throws IOException {
        Path run = folder.resolve("run");
        run(
                parts("steps: 6", "schedule: {type: WarmupLR, warmup_num_steps: 4, warmup_type: linear}"),
                run,
                RunOptions.defaults(),
                1);
        assertEquals(List.of(0.0, 0.0, 0.0025, 0.005, 0.0075, 0.01), numbers(run, "lr"));
    }

    @Test
    void rates_that_do_not_depend_on_the_length_let_a_run_be_longer() throws IOException {
        Path run = folder.resolve("run");
        String schedule = "schedule: {type: warmup_stable_decay, warmup: 2, num_stable_steps: 50, num_decay_steps: 5}";
        run(parts("steps: 6", schedule), run, RunOptions.defaults(), 1);
        assertEquals(
                RunEnd.Reason.COMPLETED,
                run(parts("steps: 9", schedule), run, RunOptions.defaults().resuming(), 1)
                        .reason());
        String changed = "schedule: {type: warmup_stable_decay, warmup: 2, num_stable_steps: 5, num_decay_steps: 5}";
        InvalidOptionException e = assertThrows(
                InvalidOptionException.class,
                () -> run(
                        parts("steps: 12", changed), run, RunOptions.defaults().resuming(), 1));
        assertTrue(e.what().contains("num_stable_steps"), e.what());
    }

    /** 16 x 8 + 16 + 3 x 16 + 3 parameters, and four bytes a number. */
    @ParameterizedTest
    @CsvSource({
        "'{type: lion}', 195",
        "'{type: adagrad}', 195",
        "'{type: lamb}', 390",
        "'{type: adafactor}', 62", // 16 + 8 and 16 + 3 of the matrices, all of the vectors
        "'{type: adafactor, beta1: 0.9}', 257",
        "'{type: muon, match: [w1, w2]}', 214", // the vectors have two moments
    })
    void the_plan_has_the_bytes_that_an_optimizer_keeps(String optimizer, int numbers) throws IOException {
        long plain = plan(parts("optimizer: {type: sgd, lr: 0.1}")).lastingBytes();
        long own = plan(parts("optimizer: " + optimizer)).lastingBytes();
        assertEquals(4L * numbers, own - plain);
    }

    @Test
    void the_plan_says_which_matrices_are_muons() throws IOException {
        RunPlan plan = plan(parts("optimizer: {type: muon}"));
        assertTrue(
                plan.notes().contains("muon: updates 2 matrices: w1, w2; AdamW at lr 3.0E-4 the other 2"),
                plan.notes().toString());
        RunPlan one = plan(parts("optimizer: {type: muon, match: w2}"));
        assertTrue(
                one.notes().contains("muon: updates 1 matrix: w2; AdamW at lr 3.0E-4 the other 3"),
                one.notes().toString());
        InvalidOptionException e =
                assertThrows(InvalidOptionException.class, () -> plan(parts("optimizer: {type: muon, match: b1}")));
        assertTrue(e.what().contains("Muon has no matrix to train"), e.what());
    }

    @Test
    void checkpoints_name_states_as_the_library_does() throws IOException {
        Path run = folder.resolve("run");
        run(parts("steps: 5", "optimizer: {type: muon, match: w1}"), run, RunOptions.defaults(), 1);
        Set<String> names = new TreeSet<>();
        try (Stream<Path> all = Files.list(new CheckpointFolder(run).path(5))) {
            for (Path file :
                    all.filter(f -> f.toString().endsWith(".safetensors")).toList()) {
                try (ModelFile model = ModelFile.open(file)) {
                    names.addAll(model.model().tensors().keySet());
                }
            }
        }
        assertTrue(names.contains("momentum_buffer:w1"), names.toString());
        assertTrue(names.contains("exp_avg:w2"), names.toString());
        assertTrue(names.stream().noneMatch(n -> n.equals("exp_avg:w1")), names.toString());
    }
}
