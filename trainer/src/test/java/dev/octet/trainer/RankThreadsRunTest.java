package dev.octet.trainer;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.checkpoint.CheckpointFile;
import dev.octet.trainer.checkpoint.CheckpointFolder;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.RankThreads;
import dev.octet.trainer.data.Samples;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.cuda.TestGpus;
import dev.octet.trainer.device.reference.ReferenceDevice;
import dev.octet.trainer.hook.Interruption;
import dev.octet.trainer.hook.NonFinite;
import dev.octet.trainer.hook.RunEnd;
import dev.octet.trainer.hook.TrainingHook;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Runs of several ranks that are threads, beside the run in which one process plays them all. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class RankThreadsRunTest {
    private static final int STEPS = 7;
    private static final Duration DEADLINE = Duration.ofSeconds(30);

    @TempDir
    Path folder;

    /** What each rank does besides; none by default. */
    private interface Hooks {
        List<TrainingHook> of(Collectives ranks);
    }

    private static TrainingParts parts(int ranks, String precision, String... lines) {
        List<String> all = new ArrayList<>(List.of("steps: " + STEPS, "gradient_accumulation: 12"));
        all.add("precision: {" + precision + (ranks == 1 ? "" : ", ranks: " + ranks) + "}");
        all.addAll(List.of(lines));
        return SmallRun.parts(SmallRun.with(all.toArray(String[]::new)));
    }

    private static RunEnd run(TrainingParts parts, Path run, Collectives world, RunOptions options) throws IOException {
        return run(parts, CpuDevice.of(1), run, world, options);
    }

    private static RunEnd run(TrainingParts parts, Device on, Path run, Collectives world, RunOptions options)
            throws IOException {
        try (Device device = on;
                Trainer trainer = Trainer.of(parts, device, world)) {
            return trainer.run(run, options);
        }
    }

    private static List<RunEnd> threads(int ranks, TrainingParts parts, Path run, RunOptions options) {
        return threads(ranks, parts, run, options, _ -> List.of());
    }

    private static List<RunEnd> threads(int ranks, TrainingParts parts, Path run, RunOptions options, Hooks hooks) {
        return RankThreads.run(ranks, DEADLINE, world -> run(parts, run, world, options.withHooks(hooks.of(world))));
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

    private static void assertSameBytes(Path expected, Path got, long step) throws IOException {
        Map<String, byte[]> first = files(expected, step);
        Map<String, byte[]> second = files(got, step);
        assertEquals(first.keySet(), second.keySet());
        first.forEach((name, bytes) -> assertArrayEquals(bytes, second.get(name), name));
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

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "2 | mode: fp32, gradient_reduction: f32 |",
                "3 | mode: fp32, gradient_reduction: f32 | optimizer: {type: sgd, lr: 0.1}",
                "4 | mode: bf16, gradient_reduction: f32 |",
                "2 | mode: fp16, gradient_reduction: f32, loss_scale: {type: torch, init_scale: 1.0e7,"
                        + " growth_interval: 3} |",
                "2 | mode: O2, gradient_reduction: f32 |",
                "3 | mode: bf16, gradient_reduction: min-scale |",
                "2 | mode: fp32, gradient_reduction: ddp, auto_scale: true |",
                "2 | mode: fp32, gradient_reduction: legacy |",
                "3 | mode: fp32, gradient_reduction: zero |",
                "2 | mode: fp32, gradient_reduction: f32 | gradient_checkpointing: {match: act}",
                "2 | mode: fp32, gradient_reduction: f32 | optimizer: {type: muon, lr: 0.01}",
                "2 | mode: fp32, gradient_reduction: f32 | optimizer: {type: adafactor, lr: 0.01}",
                "2 | mode: fp32, gradient_reduction: f32 | averaging: {ema: {decay: 0.9}}",
                "3 | mode: fp32, gradient_reduction: f32 | data: {train: made, eval: more, shuffle: true} ;"
                        + " eval_every: 2 ; schedule: {type: reduce_lr_on_plateau, patience: 1}",
                "2 | mode: fp32, gradient_reduction: f32 | data: {train: made, eval: more, shuffle: true}",
                "2 | mode: bf16, gradient_reduction: f32 | optimizer: {type: adamw, lr: 0.01, states: {engine:"
                        + " torchao}}",
                "2 | mode: fp8, gradient_reduction: f32 |",
                "3 | mode: fp8, gradient_reduction: f32, amax_history_len: 4 |",
                "2 | mode: fp8, gradient_reduction: f32, amax_compute_algo: most_recent | gradient_checkpointing:"
                        + " {match: act}",
                "2 | mode: fp8, gradient_reduction: min-scale |",
                "2 | mode: fp8, recipe: current, gradient_reduction: f32 |",
                "3 | mode: fp8, recipe: rowwise, gradient_reduction: f32 |",
                "2 | mode: fp8, recipe: mxfp8, gradient_reduction: f32 |",
                "2 | mode: msamp, opt_level: O1 |",
                "3 | mode: msamp, opt_level: O2, gradient_reduction: ddp |",
                "2 | mode: msamp, opt_level: O3, base: fp32 |",
                "2 | mode: msamp, opt_level: O2, compat: msamp |",
                "2 | mode: msamp, opt_level: O2, use_te: true |",
                "2 | mode: fp8, recipe: qat, gradient_reduction: f32 |",
                "2 | mode: qat, weights: {format: int4}, inputs: {format: int8}, gradient_reduction: f32 |",
                "3 | mode: qat, method: lsq+, weights: {format: int4}, inputs: {format: uint4}, gradient_reduction:"
                        + " f32 |",
                "2 | mode: qat, weights: {method: dorefa, format: uint4}, gradients: {bits: 6}, gradient_reduction:"
                        + " f32 |",
                "2 | mode: qat, method: range, weights: {format: int4}, inputs: {format: int8}, gradient_reduction:"
                        + " f32 |",
                "2 | mode: qat, base: bf16, inputs: {method: dynamic, variant: zero_point, format: uint8},"
                        + " gradient_reduction: f32 |"
            })
    void checkpoint_and_metrics_are_those_of_one_process_that_plays_all_ranks(int ranks, String precision, String line)
            throws IOException {
        TrainingParts parts = line == null ? parts(ranks, precision) : parts(ranks, precision, line.split(" ; ", -1));
        requireSame(ranks, parts);
    }

    private static String[] yaml(String... more) {
        List<String> lines = new ArrayList<>(List.of(
                "steps: " + STEPS, "gradient_accumulation: 12", "precision: {ranks: 2, gradient_reduction: f32}"));
        lines.addAll(List.of(more));
        return lines.toArray(String[]::new);
    }

    @Test
    void what_is_dropped_follows_from_the_micro_batch_and_not_from_the_rank() throws IOException {
        requireSame(2, SmallRun.dropping(SmallRun.with(yaml())));
    }

    @Test
    void a_teacher_answers_each_rank_as_it_answers_one_process() throws IOException {
        requireSame(
                2,
                SmallRun.taught(SmallRun.with(yaml(
                        "loss: {type: cross-entropy, distillation: {teacher: other, weight: 0.5}}",
                        "data: {train: made, eval: more}"))));
    }

    @Test
    void an_adapter_is_trained_by_ranks_as_by_one_process() throws IOException {
        requireSame(
                2,
                SmallRun.parts(SmallRun.with(
                        yaml("adapter: {r: 2, lora_alpha: 4, target_modules: [first, second], lora_dropout: 0.2}"))));
    }

    /** One sample is too large for F32: its rank alone sees a loss that is not finite. */
    private static Samples spoiled(Samples samples, long row) {
        return new ForwardedSamples(samples) {
            @Override
            public String digest() {
                return "spoiled-" + samples.digest();
            }

            @Override
            public Map<String, Tensor> gather(long[] rows, Arena arena) throws IOException {
                Map<String, Tensor> tensors = super.gather(rows, arena);
                Tensor x = requireNonNull(tensors.get("x"));
                for (int i = 0; i < rows.length; i++) {
                    if (rows[i] == row) {
                        for (int k = 0; k < SmallRun.IN; k++) {
                            x.bytes().set(Tensor.F32_LE, 4L * (i * SmallRun.IN + k), Float.MAX_VALUE);
                        }
                    }
                }
                return tensors;
            }
        };
    }

    @Test
    void a_loss_that_is_not_finite_on_one_rank_leaves_the_step_out_on_all_with_the_same_reason() throws IOException {
        TrainingParts good = SmallRun.parts(SmallRun.with(
                "gradient_accumulation: 4", "steps: 4", "precision: {ranks: 2, gradient_reduction: f32}"));
        TrainingParts parts = new TrainingParts(
                good.config(), good.model(), Optional.empty(), spoiled(good.train(), 5), Optional.empty(), Map.of());
        List<NonFinite> played = new ArrayList<>();
        run(parts, folder.resolve("played"), Collectives.alone(), watched(played));
        assertEquals(2, played.size(), "the sample is read every second step");
        assertTrue(played.stream().noneMatch(n -> n.where().isEmpty()), played.toString());
        List<List<NonFinite>> seen = List.of(new ArrayList<>(), new ArrayList<>());
        RankThreads.run(
                2, DEADLINE, world -> run(parts, folder.resolve("real"), world, watched(seen.get(world.rank()))));
        assertEquals(List.of(played, played), seen);
        assertSameBytes(folder.resolve("played"), folder.resolve("real"), 4);
    }

    private static RunOptions watched(List<NonFinite> seen) {
        return RunOptions.defaults().withHooks(List.of(new TrainingHook() {
            @Override
            public void nonFiniteSeen(NonFinite what) {
                seen.add(what);
            }
        }));
    }

    @ParameterizedTest
    @ValueSource(strings = {"fp32", "bf16"})
    @Tag("kernels")
    void ranks_with_a_GPU_each_leave_the_bytes_of_one_GPU_that_plays_them_all(String mode) throws IOException {
        requireSame(2, parts(2, "mode: " + mode + ", gradient_reduction: f32"), TestGpus::ownDevice);
    }

    @Test
    void losses_with_NCCL_are_those_of_gradients_that_pass_through_the_host() throws IOException {
        List<List<JsonNode>> runs = new ArrayList<>();
        for (String reduction : List.of("f32", "nccl")) {
            Path run = folder.resolve(reduction);
            TrainingParts parts = parts(3, "mode: fp32, gradient_reduction: " + reduction);
            RankThreads.run(3, DEADLINE, world -> run(parts, TestGpus.hostDevice(), run, world, RunOptions.defaults()));
            runs.add(steps(run));
        }
        assertEquals(STEPS, runs.getFirst().size());
        for (int i = 0; i < STEPS; i++) {
            // sums in another order
            assertEquals(
                    runs.get(0).get(i).get("loss").doubleValue(),
                    runs.get(1).get(i).get("loss").doubleValue(),
                    1e-6);
        }
    }

    @Test
    void amaxes_that_are_not_shared_are_refused() {
        assertEquals(
                "ranks have one set of scales",
                assertThrows(
                                InvalidOptionException.class,
                                () -> parts(2, "mode: fp8, reduce_amax: false, gradient_reduction: f32"))
                        .what());
    }

    @ParameterizedTest
    @CsvSource({"1, NCCL joins processes", "2, NCCL adds what lies on GPUs"})
    void NCCL_without_processes_or_GPUs_is_refused(int processes, String what) {
        TrainingParts parts = parts(2, "mode: fp32, gradient_reduction: nccl");
        InvalidOptionException why = processes == 1
                ? assertThrows(
                        InvalidOptionException.class,
                        () -> run(parts, folder, Collectives.alone(), RunOptions.defaults()))
                : assertInstanceOf(
                        InvalidOptionException.class,
                        assertThrows(UnavailableException.class, () -> threads(2, parts, folder, RunOptions.defaults()))
                                .getCause());
        assertTrue(why.what().startsWith(what), why.what());
    }

    /** Samples from a row on. */
    private record Later(Samples all, int first) implements Samples {
        @Override
        public String digest() {
            return all.digest() + " from " + first;
        }

        @Override
        public String name() {
            return all.name();
        }

        @Override
        public long count() {
            return all.count() - first;
        }

        @Override
        public Map<String, Tensor> gather(long[] rows, Arena arena) throws IOException {
            return all.gather(Arrays.stream(rows).map(r -> r + first).toArray(), arena);
        }

        @Override
        public void close() throws IOException {
            all.close();
        }
    }

    /** Amax histories and multipliers behind the first step, of samples from a row on. */
    private Map<String, float[]> scales(String name, int ranks, int first) throws IOException {
        String more = ranks == 1 ? "" : ", gradient_reduction: f32, ranks: " + ranks;
        TrainingParts all = SmallRun.parts(SmallRun.with(
                "data: {train: made, shuffle: false}",
                "steps: 1",
                "schedule: {type: constant}",
                "gradient_accumulation: " + ranks,
                "precision: {mode: fp8" + more + "}"));
        TrainingParts parts = new TrainingParts(
                all.config(),
                all.model(),
                Optional.empty(),
                new Later(all.train(), first),
                Optional.empty(),
                Map.of("model", "abc"));
        Path run = folder.resolve(name);
        threads(ranks, parts, run, RunOptions.defaults());
        Map<String, float[]> scales = new TreeMap<>();
        try (CheckpointFile checkpoint = new CheckpointFolder(run).open(1)) {
            checkpoint.state().state().forEach((slot, tensor) -> {
                if (slot.endsWith(".amax_history") || slot.endsWith(".quant_scale")) {
                    scales.put(slot, tensor.toFloats());
                }
            });
        }
        return scales;
    }

    @Test
    void the_amax_of_a_delayed_scale_is_the_largest_of_all_ranks() throws IOException {
        Map<String, float[]> first = scales("first", 1, 0);
        Map<String, float[]> second = scales("second", 1, 8);
        Map<String, float[]> both = scales("both", 2, 0);
        assertEquals(12, both.size(), "two states of three tensors of two layers: " + both.keySet());
        boolean differ = false;
        for (Map.Entry<String, float[]> e : both.entrySet()) {
            float[] a = requireNonNull(first.get(e.getKey()));
            float[] b = requireNonNull(second.get(e.getKey()));
            for (int i = 0; i < a.length; i++) {
                boolean amax = e.getKey().endsWith(".amax_history");
                float expected = amax ? Math.max(a[i], b[i]) : Math.min(a[i], b[i]);
                assertEquals(expected, e.getValue()[i], e.getKey());
                differ |= a[i] != b[i];
            }
        }
        assertTrue(differ, "the ranks saw different numbers");
    }

    private void requireSame(int ranks, TrainingParts parts) throws IOException {
        requireSame(ranks, parts, () -> CpuDevice.of(1));
    }

    private void requireSame(int ranks, TrainingParts parts, Supplier<Device> devices) throws IOException {
        Path played = folder.resolve("played");
        run(parts, devices.get(), played, Collectives.alone(), RunOptions.defaults());
        Path real = folder.resolve("real");
        RankThreads.run(ranks, DEADLINE, world -> run(parts, devices.get(), real, world, RunOptions.defaults()));
        assertSameBytes(played, real, STEPS);
        List<JsonNode> expected = steps(played);
        List<JsonNode> got = steps(real);
        assertEquals(expected.size(), got.size());
        for (int i = 0; i < expected.size(); i++) {
            for (String key :
                    List.of("step", "loss", "lr", "grad_norm", "loss_scale", "skipped", "samples", "tokens", "epoch")) {
                assertEquals(expected.get(i).get(key), got.get(i).get(key), key + " of step " + i);
            }
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {2, 3, 4})
    void losses_in_F32_are_those_of_one_process_without_ranks(int ranks) throws IOException {
        run(parts(1, "mode: fp32"), folder.resolve("one"), Collectives.alone(), RunOptions.defaults());
        threads(
                ranks,
                parts(ranks, "mode: fp32, gradient_reduction: f32"),
                folder.resolve("ranks"),
                RunOptions.defaults());
        List<JsonNode> one = steps(folder.resolve("one"));
        List<JsonNode> several = steps(folder.resolve("ranks"));
        for (int i = 0; i < one.size(); i++) {
            // the sums of gradients are added in another order: a few units in the last place of losses near 1
            assertEquals(
                    one.get(i).get("loss").asDouble(),
                    several.get(i).get("loss").asDouble(),
                    1e-6);
        }
        assertFalse(several.getFirst().has("reduction_saturated"), "nothing was cast to E4M3");
    }

    @Test
    void a_run_goes_on_from_its_checkpoint_on_ranks_and_in_one_process_alike() throws IOException {
        TrainingParts parts = parts(2, "mode: fp32, gradient_reduction: f32");
        Path whole = folder.resolve("whole");
        threads(2, parts, whole, RunOptions.defaults());
        Path pieces = folder.resolve("pieces");
        threads(2, parts, pieces, RunOptions.defaults().withMaxSteps(2));
        run(parts, pieces, Collectives.alone(), RunOptions.defaults().resuming().withMaxSteps(3));
        threads(2, parts, pieces, RunOptions.defaults().resuming());
        assertSameBytes(whole, pieces, STEPS);
    }

    @Test
    void a_rank_that_is_asked_to_end_ends_all_after_the_same_step_with_a_checkpoint() throws IOException {
        TrainingParts parts = parts(3, "mode: fp32, gradient_reduction: f32");
        List<RunEnd> ends = threads(3, parts, folder, RunOptions.defaults(), world -> {
            Interruption interruption = new Interruption();
            return List.of(interruption, new TrainingHook() {
                @Override
                public void beforeStep(long step) {
                    if (step == 5 && world.rank() == 2) {
                        assertTrue(interruption.ask());
                    }
                }
            });
        });
        for (RunEnd end : ends) {
            assertEquals(RunEnd.Reason.INTERRUPTED, end.reason());
            assertEquals(5, end.step());
        }
        assertEquals(List.of(5L), new CheckpointFolder(folder).steps());
    }

    @Test
    void a_rank_that_fails_ends_the_others_with_its_name_and_leaves_the_last_checkpoint_whole() throws IOException {
        TrainingParts parts = parts(3, "mode: fp32, gradient_reduction: f32", "checkpoint: {every: 2}");
        UnavailableException failed = assertThrows(
                UnavailableException.class,
                () -> threads(
                        3,
                        parts,
                        folder,
                        RunOptions.defaults(),
                        world -> List.of(new TrainingHook() {
                            @Override
                            public void beforeStep(long step) throws IOException {
                                if (step == 6 && world.rank() == 1) {
                                    throw new IOException("the disk is gone");
                                }
                            }
                        })));
        assertEquals("rank 1 of 3 failed: the disk is gone", failed.what());
        assertInstanceOf(IOException.class, failed.getCause());
        assertEquals(List.of(2L, 4L), new CheckpointFolder(folder).steps());
        threads(3, parts, folder, RunOptions.defaults().resuming());
        Path whole = folder.resolve("whole");
        threads(3, parts, whole, RunOptions.defaults());
        assertSameBytes(whole, folder, STEPS);
    }

    @Test
    void ranks_that_would_do_something_else_are_named_before_the_first_step() {
        UnavailableException failed = assertThrows(
                UnavailableException.class,
                () -> RankThreads.run(
                        2,
                        DEADLINE,
                        world -> run(
                                parts(
                                        2,
                                        "mode: fp32, gradient_reduction: f32",
                                        "seed: " + (1 + world.rank()),
                                        "clip_grad_norm: 0." + (5 - world.rank())),
                                folder.resolve("run"),
                                world,
                                RunOptions.defaults())));
        InvalidOptionException why = assertInstanceOf(InvalidOptionException.class, failed.getCause());
        assertEquals(
                "rank 1 is about to do something else than rank 0: clip_grad_norm is 0.4, not 0.5; seed is 2, not 1",
                why.what());
        assertFalse(Files.exists(folder.resolve("run").resolve("run.json")));
    }

    @Test
    void a_device_that_computes_for_comparisons_is_refused_on_ranks() {
        TrainingParts parts = parts(2, "mode: fp32");
        UnavailableException failed = assertThrows(
                UnavailableException.class,
                () -> RankThreads.run(
                        2, DEADLINE, world -> run(parts, new ReferenceDevice(), folder, world, RunOptions.defaults())));
        InvalidOptionException why = assertInstanceOf(InvalidOptionException.class, failed.getCause());
        assertTrue(why.where().startsWith("device reference"), why.where());
    }
}
