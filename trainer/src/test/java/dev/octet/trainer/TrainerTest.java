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
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.checkpoint.CheckpointFile;
import dev.octet.trainer.checkpoint.CheckpointFolder;
import dev.octet.trainer.checkpoint.TrainingState;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.data.Samples;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.Executable;
import dev.octet.trainer.device.Memory;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.device.reference.ReferenceDevice;
import dev.octet.trainer.hook.BestCheckpoint;
import dev.octet.trainer.hook.Gradients;
import dev.octet.trainer.hook.NonFinite;
import dev.octet.trainer.hook.RunControl;
import dev.octet.trainer.hook.RunEnd;
import dev.octet.trainer.hook.StepReport;
import dev.octet.trainer.hook.TrainingHook;
import dev.octet.trainer.precision.Fp8Policy;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.step.GraphSource;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TrainerTest {
    @TempDir
    Path folder;

    private static RunEnd run(TrainingParts parts, Path folder, RunOptions options) throws IOException {
        return run(parts, folder, options, 1);
    }

    private static RunEnd run(TrainingParts parts, Path folder, RunOptions options, int threads) throws IOException {
        try (Device device = CpuDevice.of(threads);
                Trainer trainer = Trainer.of(parts, device)) {
            return trainer.run(folder, options);
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

    private static void assertSameCheckpoint(Path a, Path b, long step) throws IOException {
        Map<String, byte[]> first = files(a, step);
        Map<String, byte[]> second = files(b, step);
        assertEquals(first.keySet(), second.keySet());
        first.forEach((name, bytes) -> assertArrayEquals(bytes, second.get(name), name));
    }

    private static List<Double> losses(Path run) throws IOException {
        List<Double> losses = new ArrayList<>();
        for (String line : Files.readAllLines(run.resolve("metrics.jsonl"))) {
            JsonNode node = new ObjectMapper().readTree(line);
            if (node.has("loss")) {
                losses.add(node.get("loss").asDouble());
            }
        }
        return losses;
    }

    static List<String> precisionModes() {
        return List.of(
                "{mode: fp32}",
                "{mode: bf16}",
                "{mode: fp16, loss_scale: {type: torch, growth_interval: 5}}",
                "{mode: fp16, loss_scale: {type: deepspeed}}",
                "{mode: O1}",
                "{mode: O2}",
                "{mode: fp8, recipe: delayed, fp8_format: HYBRID, amax_history_len: 4, amax_compute_algo: max}",
                "{mode: fp8, recipe: delayed, amax_compute_algo: most_recent, base: fp32, fused_update: false}",
                "{mode: fp8, recipe: current}",
                "{mode: fp8, recipe: block}",
                "{mode: fp8, recipe: mxfp8}",
                "{mode: fp8, recipe: tensorwise}",
                "{mode: fp8, recipe: rowwise, base: fp16}",
                "{mode: fp8, recipe: rowwise_with_gw_hp}",
                "{mode: fp8, recipe: delayed, fake_quantize: true, layers: [{match: second, fp8: false}]}");
    }

    @ParameterizedTest
    @MethodSource("precisionModes")
    void the_loss_falls(String precision) throws IOException {
        RunEnd end = run(SmallRun.parts(SmallRun.with("precision: " + precision)), folder, RunOptions.defaults());
        assertEquals(RunEnd.Reason.COMPLETED, end.reason());
        List<Double> losses = losses(folder);
        assertEquals(40, losses.size());
        assertTrue(losses.getFirst() > 0.8 && losses.getLast() < 0.35, losses.toString());
    }

    @ParameterizedTest
    @MethodSource("precisionModes")
    void steps_then_resumed_steps_are_the_same_bytes_as_all_at_once(String precision) throws IOException {
        assertPiecesAreTheWhole(SmallRun.parts(SmallRun.with("gradient_accumulation: 2", "precision: " + precision)));
    }

    @Test
    void a_run_with_averages_and_clipped_updates_is_resumed_to_the_same_bytes() throws IOException {
        assertPiecesAreTheWhole(SmallRun.parts(SmallRun.with(
                "optimizer: {type: stableadamw, lr: 1.0e-2}",
                "averaging: {ema: {decay: 0.9}, swa: {start: 20, every: 3}}")));
    }

    /** Trains at once, and interrupted again and again. */
    private void assertPiecesAreTheWhole(TrainingParts parts) throws IOException {
        Path whole = folder.resolve("whole");
        run(parts, whole, RunOptions.defaults());
        Path pieces = folder.resolve("pieces");
        SplittableRandom random = new SplittableRandom(11);
        RunEnd end = run(parts, pieces, RunOptions.defaults().withMaxSteps(1 + random.nextInt(12)));
        while (end.reason() == RunEnd.Reason.INTERRUPTED) {
            end = run(parts, pieces, RunOptions.defaults().resuming().withMaxSteps(1 + random.nextInt(12)));
        }
        assertSameCheckpoint(whole, pieces, 40);
        assertEquals(losses(whole), losses(pieces));
    }

    @ParameterizedTest
    @MethodSource("precisionModes")
    void any_number_of_threads_gives_the_same_bytes(String precision) throws IOException {
        TrainingParts parts = SmallRun.parts(SmallRun.with("precision: " + precision));
        for (int threads = 1; threads <= 3; threads++) {
            run(parts, folder.resolve("t" + threads), RunOptions.defaults(), threads);
        }
        assertSameCheckpoint(folder.resolve("t1"), folder.resolve("t2"), 40);
        assertSameCheckpoint(folder.resolve("t1"), folder.resolve("t3"), 40);
    }

    @Test
    void evaluations_and_checkpoints_change_nothing() throws IOException {
        Path plain = folder.resolve("plain");
        run(SmallRun.parts(SmallRun.with("data: {train: made, eval: more}")), plain, RunOptions.defaults());
        Path watched = folder.resolve("watched");
        String yaml =
                SmallRun.with("data: {train: made, eval: more}", "eval_every: 7", "checkpoint: {every: 3, keep: 2}");
        List<Double> evaluations = new ArrayList<>();
        run(SmallRun.parts(yaml), watched, RunOptions.defaults().withHooks(List.of(new TrainingHook() {
            @Override
            public void evaluated(EvaluationReport report) {
                evaluations.add(report.loss());
            }
        })));
        assertEquals(6, evaluations.size()); // every 7 of 40 steps, and at the end
        assertTrue(evaluations.getLast() < evaluations.getFirst(), evaluations.toString());
        assertEquals(List.of(39L, 40L), new CheckpointFolder(watched).steps());
        assertEquals(losses(plain), losses(watched));
        assertArrayEquals(
                files(plain, 40).get("parameters.safetensors"),
                files(watched, 40).get("parameters.safetensors"));
    }

    @Test
    void two_micro_batches_are_the_mean_of_both() throws IOException {
        try (Device device = CpuDevice.of(1);
                Trainer one = Trainer.of(
                        SmallRun.parts(SmallRun.with("data: {train: made, shuffle: false}", "batch_size: 16")),
                        device);
                Trainer two = Trainer.of(
                        SmallRun.parts(SmallRun.with(
                                "data: {train: made, shuffle: false}", "batch_size: 8", "gradient_accumulation: 2")),
                        device)) {
            for (int step = 1; step <= 4; step++) {
                double norm = one.step(step).gradNorm();
                // sums of 16 in another order, each within 2^-24: some 1e-6 of the norm
                assertEquals(norm, two.step(step).gradNorm(), 1e-5 * norm);
            }
        }
    }

    @Test
    void frozen_parameters_stay_and_their_moments_are_not_kept() throws IOException {
        run(SmallRun.parts(SmallRun.with("freeze: [\"1$\"]")), folder, RunOptions.defaults());
        try (CheckpointFile file = new CheckpointFolder(folder).openNewest()) {
            TrainingState state = file.state();
            for (String name : List.of("w1", "b1", "w2", "b2")) {
                boolean frozen = name.endsWith("1");
                float[] before = requireNonNull(SmallRun.source(SmallRun.HIDDEN)
                                .graph()
                                .graph()
                                .initializers()
                                .get(name))
                        .tensor()
                        .orElseThrow()
                        .toFloats();
                float[] after = requireNonNull(state.parameters().get(name)).toFloats();
                assertEquals(frozen, Arrays.equals(before, after), name);
                assertEquals(frozen, state.state().keySet().stream().noneMatch(k -> k.endsWith(":" + name)), name);
            }
        }
    }

    @Test
    void patterns_that_match_nothing_are_refused() {
        for (String line : List.of(
                "freeze: [w3]", "train_only: [x]", "optimizer: {type: adamw, lr: 0.01, no_decay: [layernorm]}")) {
            InvalidOptionException e = assertThrows(
                    InvalidOptionException.class,
                    () -> run(SmallRun.parts(SmallRun.with(line)), folder, RunOptions.defaults()),
                    line);
            assertTrue(e.what().contains("matches no parameter"), e.what());
        }
        assertThrows(
                InvalidOptionException.class,
                () -> run(SmallRun.parts(SmallRun.with("freeze: [\".\"]")), folder, RunOptions.defaults()));
    }

    @Test
    void a_run_is_not_started_over_and_not_resumed_from_nothing() throws IOException {
        TrainingParts parts = SmallRun.parts(SmallRun.CONFIG);
        Path none = folder.resolve("none");
        assertThrows(
                InvalidOptionException.class,
                () -> run(parts, none, RunOptions.defaults().resuming()));
        assertFalse(Files.exists(none));
        run(parts, folder, RunOptions.defaults().withMaxSteps(3));
        InvalidOptionException e =
                assertThrows(InvalidOptionException.class, () -> run(parts, folder, RunOptions.defaults()));
        assertEquals("there is a run in the folder, up to step 3", e.what());
        run(parts, folder, RunOptions.defaults().resuming());
        assertThrows(
                InvalidOptionException.class,
                () -> run(parts, folder, RunOptions.defaults().resuming()));
    }

    @Test
    void what_cannot_be_trained_leaves_no_folder() {
        Path none = folder.resolve("none");
        for (String line : List.of(
                "loss: {type: cross-entropy, output: logit}",
                "loss: {type: causal-lm}",
                "loss: {type: mse}",
                "precision: {mode: fp8, layers: [{match: nosuch, fp8: false}]}")) {
            assertThrows(
                    OctetException.class,
                    () -> run(SmallRun.parts(SmallRun.with(line)), none, RunOptions.defaults()),
                    line);
            assertFalse(Files.exists(none), line);
        }
    }

    @Test
    void a_label_out_of_range_is_told_with_its_step_and_the_samples_of_the_file() {
        TrainingParts parts = SmallRun.parts(SmallRun.CONFIG);
        Samples wrong = new Samples() {
            @Override
            public String digest() {
                return parts.train().digest();
            }

            @Override
            public String name() {
                return "made";
            }

            @Override
            public long count() {
                return parts.train().count();
            }

            @Override
            public Map<String, Tensor> gather(long[] rows, Arena arena) throws IOException {
                Map<String, Tensor> all = new HashMap<>(parts.train().gather(rows, arena));
                long[] labels = new long[rows.length];
                labels[1] = SmallRun.CLASSES;
                all.put("labels", Tensor.ofLongs(arena, "labels", Shape.of(rows.length), labels));
                return all;
            }

            @Override
            public void close() {}
        };
        TrainingParts with = new TrainingParts(
                SmallRun.config(SmallRun.with("data: {train: made, shuffle: false}")),
                parts.model(),
                Optional.empty(),
                wrong,
                Optional.empty(),
                parts.inputs());
        InvalidDataException e = assertThrows(
                InvalidDataException.class, () -> run(with, folder.resolve("wrong"), RunOptions.defaults()));
        assertEquals("label [1] is 3, classes are 0 to 2", e.what());
        assertEquals("labels of the loss, [8]; step 1, samples 0, 1, 2, 3, 4, 5, 6, 7 (from 0) of made", e.where());
    }

    @Test
    void resuming_with_another_configuration_model_or_data_says_which() throws IOException {
        TrainingParts parts = SmallRun.parts(SmallRun.CONFIG);
        run(parts, folder, RunOptions.defaults().withMaxSteps(6));
        refuses(
                SmallRun.parts(SmallRun.with("optimizer: {type: adamw, lr: 0.02}")),
                "optimizer.lr was 0.01 and is 0.02");
        refuses(SmallRun.parts(SmallRun.with("ties: none")), "ties was embeddings and is none");
        refuses(SmallRun.parts(SmallRun.with("batch_size: 4")), "batch_size was 8 and is 4");
        refuses(SmallRun.parts(SmallRun.with("steps: 50")), "steps was 40 and is 50");
        refuses(SmallRun.parts(SmallRun.with("precision: {mode: bf16}")), "precision.mode was fp32 and is bf16");
        TrainingParts otherModel = new TrainingParts(
                parts.config(),
                parts.model(),
                Optional.empty(),
                parts.train(),
                Optional.empty(),
                Map.of("model", "def"));
        refuses(otherModel, "sha256.model was abc and is def");
        TrainingParts otherData = new TrainingParts(
                parts.config(), parts.model(), Optional.empty(), SmallRun.samples(9), Optional.empty(), parts.inputs());
        refuses(otherData, "sha256.data.train was made-5 and is made-9");
        run(
                SmallRun.parts(SmallRun.with("checkpoint: {every: 5}", "on_non_finite: stop")),
                folder,
                RunOptions.defaults().resuming());
    }

    /** The step numbers of evaluations, and how many samples they had. */
    private static List<List<Long>> evaluations(TrainingParts parts, Path run) throws IOException {
        List<List<Long>> all = new ArrayList<>();
        run(parts, run, RunOptions.defaults().withHooks(List.of(new TrainingHook() {
            @Override
            public void evaluated(EvaluationReport report) {
                all.add(List.of(report.step(), report.samples()));
            }
        })));
        return all;
    }

    /** 64 samples in batches of 8, three to a step: an epoch ends with steps 3, 6, 8, 11, 14 and 16. */
    private static final String BY_EPOCHS = SmallRun.with(
            "data: {train: made, eval: more}",
            "gradient_accumulation: 3",
            "steps: 16",
            "optimizer: {type: adamw, lr: 0.3}",
            "eval_every: epoch",
            "checkpoint: {every: epoch, keep: 1, best: loss}");

    @Test
    void each_epoch_is_evaluated_and_the_best_checkpoint_is_kept_besides_the_newest() throws IOException {
        Path run = folder.resolve("run");
        List<Double> losses = new ArrayList<>();
        List<Long> steps = new ArrayList<>();
        run(SmallRun.parts(BY_EPOCHS), run, RunOptions.defaults().withHooks(List.of(new TrainingHook() {
            @Override
            public void evaluated(EvaluationReport report) {
                steps.add(report.step());
                losses.add(report.loss());
            }
        })));
        assertEquals(List.of(3L, 6L, 8L, 11L, 14L, 16L), steps);
        long best = steps.get(losses.indexOf(Collections.min(losses)));
        assertTrue(best < 16, "the learning rate is meant to be too high: " + losses);
        assertEquals(List.of(best, 16L), new CheckpointFolder(run).steps());
        try (CheckpointFile newest = new CheckpointFolder(run).openNewest()) {
            assertEquals(String.valueOf(best), newest.state().numbers().get(BestCheckpoint.IN_CHECKPOINTS));
        }
    }

    /** Interrupted after each step: the rate, the best and the evaluations follow from checkpoints alone. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "{type: reduce_lr_on_plateau, patience: 0, factor: 0.5}",
                "{type: greedy, patience: 0, min_lr: 0.01}"
            })
    void a_run_whose_rate_follows_evaluations_is_resumed_to_the_same_bytes(String schedule) throws IOException {
        TrainingParts parts = SmallRun.parts(BY_EPOCHS.replaceAll("schedule: .*", "schedule: " + schedule));
        Path whole = folder.resolve("whole");
        run(parts, whole, RunOptions.defaults());
        Path pieces = folder.resolve("pieces");
        run(parts, pieces, RunOptions.defaults().withMaxSteps(1));
        for (int step = 2; step <= 16; step++) {
            run(parts, pieces, RunOptions.defaults().resuming().withMaxSteps(1));
        }
        assertSameCheckpoint(whole, pieces, 16);
        List<Double> rates = new ArrayList<>();
        for (String line : Files.readAllLines(whole.resolve("metrics.jsonl"))) {
            JsonNode node = new ObjectMapper().readTree(line);
            if (node.has("lr")) {
                rates.add(node.get("lr").asDouble());
            }
        }
        assertTrue(new TreeSet<>(rates).size() > 1, "rates " + rates);
    }

    @Test
    void evaluation_data_is_evaluated_at_the_end_all_of_it() throws IOException {
        String yaml = SmallRun.with("data: {train: made, eval: more}", "batch_size: 7");
        assertEquals(
                List.of(List.of(40L, (long) SmallRun.SAMPLES)),
                evaluations(SmallRun.parts(yaml), folder.resolve("sevens")));
        assertEquals(
                List.of(List.of(40L, (long) SmallRun.SAMPLES)),
                evaluations(
                        SmallRun.parts(SmallRun.with("data: {train: made, eval: more}")), folder.resolve("eights")));
    }

    /** The last batch of 64 samples in sevens has one: the mean over all is that of one batch of 64. */
    @Test
    void what_does_not_fill_a_batch_counts_as_much_as_the_rest() throws IOException {
        double[] losses = new double[2];
        int i = 0;
        for (int size : new int[] {7, 64}) {
            String yaml = SmallRun.with("data: {train: made, eval: more}", "batch_size: " + size);
            try (Trainer trainer = Trainer.of(SmallRun.parts(yaml), CpuDevice.of(1))) {
                losses[i++] = trainer.evaluate().total();
            }
        }
        assertEquals(losses[1], losses[0], 1e-6);
    }

    @Test
    void epochs_and_a_share_of_warm_up_become_steps() throws IOException {
        // 64 samples in batches of 8: 8 batches an epoch, two of them a step
        TrainingConfig c = SmallRun.parts("""
            data: {train: made}
            loss: {type: cross-entropy}
            epochs: 2.5
            gradient_accumulation: 2
            schedule: {type: cosine, warmup: 15%}
            """).config();
        assertEquals(10, c.steps());
        assertEquals(2, c.schedule().warmup());
        Path run = folder.resolve("epochs");
        TrainingParts parts = SmallRun.parts(SmallRun.CONFIG.replace("steps: 40", "epochs: 5"));
        assertEquals(40, run(parts, run, RunOptions.defaults().withMaxSteps(12)).step() + 28);
        List<String> lines = Files.readAllLines(run.resolve("metrics.jsonl"));
        assertTrue(lines.getLast().contains("\"epoch\":1.5,"), lines.getLast());
        // the same number of steps, written as such, is the same run
        run(SmallRun.parts(SmallRun.CONFIG), run, RunOptions.defaults().resuming());
        Path whole = folder.resolve("whole");
        run(SmallRun.parts(SmallRun.CONFIG), whole, RunOptions.defaults());
        assertArrayEquals(
                files(whole, 40).get("parameters.safetensors"), files(run, 40).get("parameters.safetensors"));
    }

    @Test
    void more_steps_are_added_where_the_learning_rates_stay_or_one_says_that_they_may_change() throws IOException {
        run(SmallRun.parts(SmallRun.CONFIG), folder, RunOptions.defaults().withMaxSteps(3));
        // within the warm-up of 4 steps nothing depends on the number of steps
        assertEquals(
                10,
                run(
                                SmallRun.parts(SmallRun.with("steps: 60")),
                                folder,
                                RunOptions.defaults().resuming().withMaxSteps(7))
                        .step());
        TrainingParts more = SmallRun.parts(SmallRun.with("steps: 80"));
        InvalidOptionException e = assertThrows(
                InvalidOptionException.class,
                () -> run(more, folder, RunOptions.defaults().resuming()));
        assertEquals(
                "the run cannot resume: steps was 60 and is 80, and with a linear schedule the learning rate depends on"
                        + " it: step 11 would have 0.0092 instead of 0.0089",
                e.what());
        assertEquals("accept this with --set schedule.stretch=true, or restore steps: 60", e.fix());
        TrainingParts stretched =
                SmallRun.parts(SmallRun.with("steps: 80", "schedule: {type: linear, warmup: 4, stretch: true}"));
        assertEquals(
                80, run(stretched, folder, RunOptions.defaults().resuming()).step());
    }

    @Test
    void a_run_that_says_nothing_of_checkpoints_keeps_some() throws IOException {
        TrainingParts parts = SmallRun.parts(SmallRun.with("steps: 1100"));
        run(parts, folder, RunOptions.defaults());
        assertEquals(List.of(500L, 1000L, 1100L), new CheckpointFolder(folder).steps());
    }

    private void refuses(TrainingParts parts, String what) {
        InvalidOptionException e = assertThrows(
                InvalidOptionException.class,
                () -> run(parts, folder, RunOptions.defaults().resuming()),
                what);
        assertTrue(e.what().contains(what), e.what());
    }

    @Test
    void state_for_another_shape_is_refused() throws IOException {
        TrainingParts parts = SmallRun.parts(SmallRun.CONFIG);
        run(parts, folder, RunOptions.defaults().withMaxSteps(3));
        TrainingParts wider = new TrainingParts(
                parts.config(), SmallRun.source(20), Optional.empty(), parts.train(), Optional.empty(), parts.inputs());
        InvalidDataException e = assertThrows(
                InvalidDataException.class,
                () -> run(wider, folder, RunOptions.defaults().resuming()));
        assertTrue(e.what().contains("F32 [8, 16], but the program needs F32 [8, 20]"), e.what());
    }

    @Test
    void a_damaged_checkpoint_is_refused_and_the_one_before_works() throws IOException {
        TrainingParts parts = SmallRun.parts(SmallRun.with("checkpoint: {every: 10}"));
        Path whole = folder.resolve("whole");
        run(parts, whole, RunOptions.defaults());
        Path damaged = folder.resolve("damaged");
        run(parts, damaged, RunOptions.defaults().withMaxSteps(25));
        Path state = new CheckpointFolder(damaged).path(25).resolve("state.safetensors");
        byte[] bytes = Files.readAllBytes(state);
        bytes[bytes.length / 2] ^= 1;
        Files.write(state, bytes);
        MalformedModelException e = assertThrows(
                MalformedModelException.class,
                () -> run(parts, damaged, RunOptions.defaults().resuming()));
        assertEquals("step-20 is good: resume with --from-step 20, or export it with --step 20", e.fix());
        run(parts, damaged, new RunOptions(true, 20, Long.MAX_VALUE, List.of(), Map.of()));
        assertSameCheckpoint(whole, damaged, 40);
        assertEquals(losses(whole), losses(damaged));
    }

    /** Makes a weight infinite before a step. */
    private static TrainingParts withBrokenWeight(String yaml) {
        TrainingParts parts = SmallRun.parts(yaml);
        Tensor w = requireNonNull(parts.model().graph().graph().initializers().get("w2"))
                .tensor()
                .orElseThrow();
        w.bytes().set(Tensor.F32_LE, 4, Float.NaN);
        return parts;
    }

    @Test
    void a_number_that_is_not_finite_stops_the_run_and_names_layer_and_product() throws IOException {
        RunEnd end = run(withBrokenWeight(SmallRun.with("on_non_finite: stop")), folder, RunOptions.defaults());
        assertEquals(RunEnd.Reason.NON_FINITE, end.reason());
        assertEquals(1, end.step());
        assertEquals("the loss is not finite, first in node 'second', Linear, forward (fprop): NaN", end.message());
        assertTrue(new CheckpointFolder(folder).steps().isEmpty());
    }

    @Test
    void or_is_skipped_step_by_step_never_silently() throws IOException {
        List<NonFinite> seen = new ArrayList<>();
        RunEnd end = run(
                withBrokenWeight(SmallRun.with("steps: 5")),
                folder,
                RunOptions.defaults().withHooks(List.of(new TrainingHook() {
                    @Override
                    public void nonFiniteSeen(NonFinite what) {
                        seen.add(what);
                    }
                })));
        assertEquals(RunEnd.Reason.COMPLETED, end.reason());
        assertEquals(5, end.totals().skipped());
        assertEquals(5, seen.size());
        assertTrue(seen.getFirst().skipped());
    }

    @Test
    void an_overflow_of_the_loss_scale_skips_a_step_and_halves_the_scale() throws IOException {
        List<String> events = new ArrayList<>();
        RunEnd end = run(
                SmallRun.parts(SmallRun.with(
                        "on_non_finite: stop",
                        "precision: {mode: fp16, loss_scale: {type: torch, init_scale: 1073741824}}")),
                folder,
                RunOptions.defaults().withHooks(List.of(new TrainingHook() {
                    @Override
                    public void lossScaleChanged(long step, double before, double after) {
                        events.add(step + ": " + before / after);
                    }
                })));
        assertEquals(RunEnd.Reason.COMPLETED, end.reason());
        assertEquals("1: 2.0", events.getFirst());
        assertEquals(events.size(), end.totals().skipped());
        assertTrue(losses(folder).getLast() < 0.7, losses(folder).toString());
    }

    @Test
    void a_learning_rate_far_too_high_ends_as_diverged_without_a_checkpoint() throws IOException {
        String yaml = SmallRun.with(
                "optimizer: {type: sgd, lr: 0.05}",
                "schedule: {type: constant}",
                "steps: 200",
                "checkpoint: {every: 10}",
                "divergence: {factor: 3}");
        TrainingHook poison = new TrainingHook() {
            private RunControlHolder control = RunControlHolder.NONE;

            @Override
            public void runStarted(RunStart start, RunControl c) {
                control = new RunControlHolder(c);
            }

            @Override
            public void afterStep(StepReport report) {
                if (report.step() == 33) {
                    control.stop(RunEnd.Reason.DIVERGED, "as asked");
                }
            }
        };
        RunEnd end = run(SmallRun.parts(yaml), folder, RunOptions.defaults().withHooks(List.of(poison)));
        assertEquals(RunEnd.Reason.DIVERGED, end.reason());
        assertEquals("as asked", end.message());
        assertEquals(List.of(10L, 20L, 30L), new CheckpointFolder(folder).steps());
    }

    private record RunControlHolder(@Nullable RunControl control) {
        private static final RunControlHolder NONE = new RunControlHolder(null);

        void stop(RunEnd.Reason reason, String message) {
            requireNonNull(control).stop(reason, message);
        }
    }

    /** Notes the order in which it is called. */
    private static final class Diary implements TrainingHook {
        private final List<String> lines = new ArrayList<>();

        @Override
        public void runStarted(RunStart start, RunControl control) {
            lines.add("start " + start.firstStep() + ".." + start.lastStep());
        }

        @Override
        public void beforeStep(long step) {
            lines.add("before " + step);
        }

        @Override
        public boolean watchesGradients() {
            return true;
        }

        @Override
        public void afterBackward(long step, Gradients gradients) {
            float[] g = gradients.read("b2");
            lines.add("gradients " + gradients.names() + " " + g.length);
        }

        @Override
        public void afterStep(StepReport report) {
            lines.add("after " + report.step());
        }

        @Override
        public void checkpointWritten(CheckpointReport report) {
            lines.add("checkpoint " + report.step());
        }

        @Override
        public void runEnded(RunEnd end) {
            lines.add("end " + end.reason());
        }
    }

    @Test
    void hooks_are_called_in_order() throws IOException {
        Diary diary = new Diary();
        run(
                SmallRun.parts(SmallRun.with("checkpoint: {every: 1}")),
                folder,
                RunOptions.defaults().withMaxSteps(1).withHooks(List.of(diary)));
        assertEquals(
                List.of(
                        "start 1..1",
                        "before 1",
                        "gradients [b1, b2, w1, w2] 3",
                        "after 1",
                        "checkpoint 1",
                        "end INTERRUPTED"),
                diary.lines);
    }

    @Test
    void hooks_that_watch_scales_are_told_of_amaxes_and_scales() throws IOException {
        List<String> amaxes = new ArrayList<>();
        List<String> scales = new ArrayList<>();
        TrainingHook watch = new TrainingHook() {
            @Override
            public boolean watchesScales() {
                return true;
            }

            @Override
            public void amaxRecorded(long step, String slot, float amax) {
                amaxes.add(step + " " + slot + " " + (amax > 0));
            }

            @Override
            public void scaleUpdated(long step, String slot, float before, float after) {
                scales.add(slot);
            }
        };
        TrainingParts parts = SmallRun.parts(SmallRun.with("precision: {mode: fp8, amax_history_len: 4}"));
        run(parts, folder, RunOptions.defaults().withMaxSteps(3).withHooks(List.of(watch)));
        assertTrue(amaxes.contains("2 fp8.first.input true"), amaxes.toString());
        assertTrue(amaxes.contains("3 fp8.second.grad_output true"), amaxes.toString());
        assertTrue(scales.contains("fp8.first.input"), scales.toString());
    }

    @ParameterizedTest
    @ValueSource(strings = {"{mode: bf16}", "{mode: fp8}"})
    void evaluations_in_narrow_types_use_the_weights_of_their_step(String precision) throws IOException {
        String yaml = SmallRun.with("data: {train: made, eval: more}", "eval_every: 10");
        List<Double> wide = evaluations(yaml, folder.resolve("fp32"));
        List<Double> narrow = evaluations(yaml + "precision: " + precision + "\n", folder.resolve("narrow"));
        assertTrue(wide.getFirst() - wide.getLast() > 0.2, wide.toString());
        for (int i = 0; i < wide.size(); i++) {
            assertEquals(wide.get(i), narrow.get(i), 0.03, "evaluation " + (i + 1));
        }
    }

    private static List<Double> evaluations(String yaml, Path run) throws IOException {
        List<Double> losses = new ArrayList<>();
        run(SmallRun.parts(yaml), run, RunOptions.defaults().withHooks(List.of(new TrainingHook() {
            @Override
            public void evaluated(EvaluationReport report) {
                losses.add(report.loss());
            }
        })));
        return losses;
    }

    @Test
    void gradients_that_a_hook_reads_are_without_the_loss_scale() throws IOException {
        double[] squares = new double[2];
        String yaml = SmallRun.with("precision: {mode: fp16, loss_scale: {type: torch, init_scale: 64}}");
        run(SmallRun.parts(yaml), folder, RunOptions.defaults().withMaxSteps(1).withHooks(List.of(new TrainingHook() {
            @Override
            public boolean watchesGradients() {
                return true;
            }

            @Override
            public void afterBackward(long step, Gradients gradients) {
                for (String name : gradients.names()) {
                    for (float g : gradients.read(name)) {
                        squares[0] += (double) g * g;
                    }
                }
            }

            @Override
            public void afterStep(StepReport report) {
                squares[1] = report.gradNorm() * report.gradNorm();
            }
        })));
        assertEquals(squares[1], squares[0], 1e-5 * squares[1]); // one sum in F32, the other in F64
    }

    @Test
    void hooks_are_told_when_an_error_ends_the_run() {
        Diary diary = new Diary();
        TrainingHook failing = new TrainingHook() {
            @Override
            public void afterStep(StepReport report) throws IOException {
                throw new IOException("no");
            }
        };
        assertThrows(
                IOException.class,
                () -> run(
                        SmallRun.parts(SmallRun.CONFIG),
                        folder,
                        RunOptions.defaults().withHooks(List.of(diary, failing))));
        assertEquals("end FAILED", diary.lines.getLast());
    }

    @Test
    void the_manifest_names_settings_and_each_go() throws IOException {
        TrainingParts parts = SmallRun.parts(SmallRun.CONFIG);
        RunOptions first = new RunOptions(false, 0, 3, List.of(), Map.of("command", "octet train"));
        run(parts, folder, first);
        run(parts, folder, RunOptions.defaults().resuming());
        JsonNode run = new ObjectMapper().readTree(folder.resolve("run.json").toFile());
        assertEquals("0.01", run.at("/settings/optimizer.lr").asText());
        assertEquals("abc", run.at("/settings/sha256.model").asText());
        assertEquals(2, run.get("sessions").size());
        assertEquals("octet train", run.at("/sessions/0/command").asText());
        assertEquals(4, run.at("/sessions/1/first_step").asInt());
        assertEquals(
                8 * 16 + 16 + 16 * 3 + 3,
                run.at("/sessions/1/trained_parameters").asInt());
    }

    @Test
    void labels_that_are_no_class_are_refused_before_anything_changes() {
        // three classes of labels for a model of two
        TrainingParts parts = SmallRun.parts(SmallRun.with("loss: {type: cross-entropy, output: h}"));
        assertThrows(InvalidOptionException.class, () -> run(parts, folder, RunOptions.defaults()));
    }

    @Test
    void weights_can_be_read_between_steps() throws IOException {
        try (Device device = CpuDevice.of(1);
                Trainer trainer = Trainer.of(SmallRun.parts(SmallRun.CONFIG), device);
                Arena arena = Arena.ofConfined()) {
            trainer.step(1);
            assertEquals(SmallRun.PARAMETERS, trainer.parameters(arena).keySet());
        }
    }

    /** A checkpoint of all weights and moments would otherwise take as much memory again. */
    @Test
    void a_checkpoint_is_written_from_the_memory_that_the_step_works_on() throws IOException {
        try (Device device = CpuDevice.of(1);
                Trainer trainer = Trainer.of(SmallRun.parts(SmallRun.CONFIG), device);
                Arena arena = Arena.ofConfined()) {
            trainer.step(1);
            Map<String, Tensor> weights = trainer.session().parameterViews(arena);
            Map<String, Tensor> before = trainer.parameters(arena);
            assertSameBytes(before, weights);
            trainer.step(2);
            assertSameBytes(trainer.parameters(arena), weights);
            assertThrows(AssertionError.class, () -> assertSameBytes(before, weights));
        }
    }

    @Test
    void a_trainer_goes_on_by_another_policy_and_returns() throws IOException {
        TrainingParts parts = SmallRun.parts(SmallRun.with("precision: {mode: fp8}"));
        try (Trainer one = Trainer.of(parts, CpuDevice.of(1));
                Trainer other = Trainer.of(parts, CpuDevice.of(1))) {
            Fp8Policy fp8 = one.fp8Policy().orElseThrow();
            assertEquals(one.step(1), other.step(1));
            other.usePolicy(fp8.base());
            double low = other.step(2).loss();
            double fp8Loss = one.step(2).loss();
            assertNotEquals(fp8Loss, low);
            other.usePolicy(fp8);
            assertTrue(Math.abs(one.step(3).loss() - other.step(3).loss()) < 0.1 * Math.abs(low));
        }
    }

    private static void assertSameBytes(Map<String, Tensor> expected, Map<String, Tensor> tensors) {
        assertEquals(expected.keySet(), tensors.keySet());
        tensors.forEach((name, t) -> assertEquals(-1, bytes(expected, name).mismatch(t.bytes()), name));
    }

    private static MemorySegment bytes(Map<String, Tensor> tensors, String name) {
        return Objects.requireNonNull(tensors.get(name)).bytes();
    }

    private static String taughtBy(String distillation) {
        return SmallRun.with(
                "data: {train: made, eval: more}",
                "eval_every: 20",
                "loss: {type: cross-entropy, distillation: {teacher: t.onnx" + distillation + "}}");
    }

    /** Each line of metrics that has the key. */
    private List<JsonNode> metrics(String key) throws IOException {
        List<JsonNode> found = new ArrayList<>();
        for (String line : Files.readAllLines(folder.resolve("metrics.jsonl"))) {
            JsonNode node = new ObjectMapper().readTree(line);
            if (node.has(key)) {
                found.add(node);
            }
        }
        return found;
    }

    @Test
    void a_student_comes_near_to_its_teacher_without_labels() throws IOException {
        RunEnd end = run(SmallRun.taught(taughtBy(", temperature: 2")), folder, RunOptions.defaults());
        assertEquals(RunEnd.Reason.COMPLETED, end.reason());
        List<Double> losses = losses(folder);
        assertTrue(losses.getLast() < losses.getFirst() / 3, losses.toString());
        // evaluations are of the same loss
        List<JsonNode> evaluations = metrics("eval_loss");
        assertTrue(evaluations.getLast().get("eval_loss").asDouble() < losses.getFirst() / 3, evaluations.toString());
        assertTrue(metrics("task_loss").isEmpty());
    }

    @Test
    void a_loss_of_teacher_and_labels_is_the_weighted_sum_of_both_and_shows_them() throws IOException {
        List<Double> reported = new ArrayList<>();
        run(
                SmallRun.taught(taughtBy(", weight: 0.25")),
                folder,
                RunOptions.defaults().withHooks(List.of(new TrainingHook() {
                    @Override
                    public void afterStep(StepReport report) {
                        reported.add(report.lossParts().getOrDefault("distillation", Double.NaN));
                    }
                })));
        List<JsonNode> steps = metrics("task_loss");
        assertEquals(40, steps.size());
        for (JsonNode step : steps) {
            double task = step.get("task_loss").asDouble();
            double distillation = step.get("distillation_loss").asDouble();
            double loss = step.get("loss").asDouble();
            assertEquals(0.25 * distillation + 0.75 * task, loss, 1e-6 * loss);
            assertEquals(reported.get(step.get("step").asInt() - 1), distillation);
        }
        JsonNode evaluation = metrics("eval_loss").getFirst();
        assertEquals(
                0.25 * evaluation.get("eval_distillation_loss").asDouble()
                        + 0.75 * evaluation.get("eval_task_loss").asDouble(),
                evaluation.get("eval_loss").asDouble(),
                1e-6);
    }

    @ParameterizedTest
    @ValueSource(strings = {"{mode: bf16}", "{mode: fp16}", "{mode: O3}", "{mode: fp8}"})
    void distillation_in_narrow_types_is_near_that_in_f32(String precision) throws IOException {
        String yaml = taughtBy(", weight: 0.5, temperature: 2");
        run(SmallRun.taught(yaml), folder.resolve("fp32"), RunOptions.defaults());
        run(SmallRun.taught(yaml + "precision: " + precision + "\n"), folder.resolve("narrow"), RunOptions.defaults());
        List<Double> wide = losses(folder.resolve("fp32"));
        List<Double> narrow = losses(folder.resolve("narrow"));
        for (int i = 0; i < wide.size(); i++) {
            assertEquals(wide.get(i), narrow.get(i), 0.02, "step " + (i + 1));
        }
    }

    @Test
    void a_teacher_that_does_not_fit_is_refused_before_any_step() {
        TrainingParts parts = SmallRun.taught(taughtBy(""));
        GraphModel teacher = requireNonNull(parts.teacher().orElse(null)).graph();
        GraphEdit edit = GraphEdit.of(teacher.graph());
        edit.setInputs(List.of(teacher.graph().inputs().getFirst(), new ValueInfo("mask", edit.type("x"))));
        TrainingParts others = withTeacher(parts, teacher.withGraph(edit.build()));
        UnsupportedModelException e =
                assertThrows(UnsupportedModelException.class, () -> run(others, folder, RunOptions.defaults()));
        assertTrue(e.what().startsWith("the teacher needs inputs [mask]"), e.what());

        GraphEdit outputs = GraphEdit.of(teacher.graph());
        outputs.setOutputs(List.of(new ValueInfo("h", edit.type("x")), new ValueInfo("a", edit.type("x"))));
        TrainingParts nameless = withTeacher(parts, teacher.withGraph(outputs.build()));
        e = assertThrows(UnsupportedModelException.class, () -> run(nameless, folder, RunOptions.defaults()));
        assertTrue(e.what().contains("but not 'logits'"), e.what());
        assertTrue(Files.notExists(folder.resolve("metrics.jsonl")));
        CountedMemory device = new CountedMemory();
        assertThrows(UnsupportedModelException.class, () -> Trainer.of(nameless, device));
        assertEquals(0, device.open);
    }

    /** A device that counts what was allocated and not closed. */
    private static final class CountedMemory implements Device {
        private final Device real = new ReferenceDevice();
        private int open;

        @Override
        public String name() {
            return real.name();
        }

        @Override
        public String products() {
            return real.products();
        }

        @Override
        public Memory allocate(Collection<Value> lasting) {
            Memory memory = real.allocate(lasting);
            open++;
            return new Memory() {
                @Override
                public void write(Value value, MemorySegment bytes) {
                    memory.write(value, bytes);
                }

                @Override
                public void read(Value value, MemorySegment bytes) {
                    memory.read(value, bytes);
                }

                @Override
                public void zero(Value value) {
                    memory.zero(value);
                }

                @Override
                public void close() {
                    memory.close();
                    open--;
                }
            };
        }

        @Override
        public Executable load(Program program, Memory memory) {
            throw new AssertionError("no program is to be made");
        }

        @Override
        public void close() {
            real.close();
        }
    }

    private static TrainingParts withTeacher(TrainingParts parts, GraphModel teacher) {
        return new TrainingParts(
                parts.config(),
                parts.model(),
                Optional.of(GraphSource.fixed(teacher)),
                parts.train(),
                parts.eval(),
                parts.inputs());
    }
}
