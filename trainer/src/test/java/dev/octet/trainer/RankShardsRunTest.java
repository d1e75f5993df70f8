package dev.octet.trainer;

import static dev.octet.trainer.RankRuns.DEADLINE;
import static dev.octet.trainer.RankRuns.assertSame;
import static dev.octet.trainer.RankRuns.run;
import static dev.octet.trainer.RankRuns.threads;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnavailableException;
import dev.octet.trainer.checkpoint.CheckpointFolder;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.RankThreads;
import dev.octet.trainer.hook.NonFinite;
import dev.octet.trainer.hook.TrainingHook;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Runs of ranks that share out states and gradients, beside the run in which one process plays all ranks and keeps all. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class RankShardsRunTest {
    private static final int STEPS = 7;

    @TempDir
    Path folder;

    private static TrainingParts parts(int ranks, int accumulation, String zero, String precision, String... lines) {
        List<String> all = new ArrayList<>(List.of(
                "steps: " + STEPS,
                "gradient_accumulation: " + accumulation,
                "distributed: {" + zero + "}",
                "precision: {" + precision + (ranks == 1 ? "" : ", ranks: " + ranks) + "}"));
        all.addAll(List.of(lines));
        return SmallRun.parts(SmallRun.with(all.toArray(String[]::new)));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "2 | 2 | zero: 1 | mode: fp32 |",
                "3 | 6 | zero: 1 | mode: bf16 |",
                "2 | 2 | zero: 2 | mode: fp32 |",
                "3 | 3 | zero: 2 | mode: bf16 |",
                "4 | 4 | zero: 2 | mode: fp32 |",
                "2 | 4 | zero: 2 | mode: fp32 |",
                "4 | 12 | zero: 2 | mode: bf16 |",
                "2 | 2 | zero: 2, bucket_size: 100 | mode: fp32 |",
                "2 | 2 | zero: 1, bucket_size: 100 | mode: fp32 |",
                "2 | 2 | zero: 2 | mode: fp16, loss_scale: {type: torch, init_scale: 1.0e7, growth_interval: 3} |",
                "2 | 4 | zero: 2 | mode: O2 |",
                "3 | 3 | zero: 1 | mode: bf16 | optimizer: {type: adamw, lr: 0.01, states: {engine: torchao}}",
                "2 | 4 | zero: 2 | mode: fp32 | adapter: {r: 2, lora_alpha: 4, target_modules: [first, second],"
                        + " lora_dropout: 0.2}",
                "2 | 4 | zero: 1 | mode: fp8 |",
                "3 | 6 | zero: 2 | mode: fp8, amax_history_len: 4 |",
                "2 | 2 | zero: 3 | mode: fp8 |",
                "2 | 4 | zero: 3 | mode: fp8, recipe: mxfp8 |",
                "2 | 4 | zero: 3 | mode: fp8, amax_history_len: 4 | gradient_checkpointing: {match: act}",
                "2 | 4 | zero: 2 | mode: qat, weights: {format: int4}, inputs: {format: int8} |",
                "2 | 4 | zero: 3 | mode: qat, method: lsq+, weights: {format: int4}, inputs: {format: uint4} |",
                "2 | 2 | zero: 3 | mode: fp32 |",
                "4 | 4 | zero: 3 | mode: fp32 |",
                "2 | 4 | zero: 3 | mode: fp32 |",
                "4 | 12 | zero: 3 | mode: bf16 |",
                "2 | 2 | zero: 3, bucket_size: 1 | mode: fp32 |",
                "2 | 2 | zero: 3 | mode: fp16, loss_scale: {type: torch, init_scale: 1.0e7, growth_interval: 3} |",
                "2 | 4 | zero: 3 | mode: O2 |",
                "3 | 3 | zero: 3 | mode: fp32 | optimizer: {type: sgd, lr: 0.1}",
                "2 | 2 | zero: 3 | mode: fp32 | optimizer: {type: adafactor, lr: 0.01}",
                "2 | 2 | zero: 3 | mode: fp32 | optimizer: {type: muon, lr: 0.01}",
                "2 | 2 | zero: 3 | mode: fp32 | optimizer: {type: lamb, lr: 0.01}",
                "2 | 2 | zero: 3 | mode: fp32 | optimizer: {type: stableadamw, lr: 0.01}",
                "2 | 2 | zero: 3 | mode: fp32 | averaging: {ema: {decay: 0.9}}",
                "2 | 2 | zero: 3 | mode: fp32 | schedule: {type: OneCycleLR, max_lr: 0.01}",
                "3 | 3 | zero: 3 | mode: bf16 | optimizer: {type: adamw, lr: 0.01, states: {engine: torchao, format:"
                        + " fp8}}",
                "2 | 2 | zero: 3 | mode: bf16 | optimizer: {type: adamw, lr: 0.01, states: {engine: bf16}}",
                "2 | 4 | zero: 3 | mode: bf16 | optimizer: {type: adamw, lr: 0.01, states: {engine: bf16, masters:"
                        + " bf16}}",
                "2 | 2 | zero: 3 | mode: bf16 | optimizer: {type: adamw, lr: 0.01, states: {engine: te,"
                        + " store_param_remainders: true}}",
                "2 | 2 | zero: 3 | mode: fp32 | gradient_checkpointing: {match: act}",
                "2 | 2 | zero: 3 | mode: fp32 | train_only: [w2]",
                "2 | 2 | zero: 3 | mode: fp32 | data: {train: made, eval: more, shuffle: true} ; eval_every: 2 ;"
                        + " schedule: {type: reduce_lr_on_plateau, patience: 1}",
                "2 | 4 | zero: 3 | mode: fp32 | adapter: {r: 2, lora_alpha: 4, target_modules: [first, second],"
                        + " lora_dropout: 0.2}",
                "2 | 2 | zero: 3 | mode: bf16 | batch_size: 6 ; data: {train: made, eval: more, shuffle: true} ;"
                        + " eval_every: 2 ; schedule: {type: reduce_lr_on_plateau, patience: 1}"
            })
    void a_checkpoint_of_shares_has_the_bytes_of_the_run_that_keeps_all(
            int ranks, int accumulation, String zero, String precision, @Nullable String line) throws IOException {
        requireSame(ranks, accumulation, zero, precision, line);
    }

    @Tag("sweep")
    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "2 | 2 | zero: 2, bucket_size: 1 | mode: fp32 |",
                "3 | 3 | zero: 2 | mode: fp32 | optimizer: {type: sgd, lr: 0.1}",
                "3 | 3 | zero: 2 | mode: fp32 | optimizer: {type: sgd, lr: 0.1, momentum: 0.9, nesterov: true}",
                "2 | 2 | zero: 2 | mode: fp32 | optimizer: {type: adafactor, lr: 0.01}",
                "2 | 2 | zero: 2 | mode: fp32 | optimizer: {type: muon, lr: 0.01}",
                "2 | 2 | zero: 2 | mode: fp32 | optimizer: {type: lamb, lr: 0.01}",
                "2 | 2 | zero: 2 | mode: fp32 | optimizer: {type: lion, lr: 0.001}",
                "2 | 2 | zero: 2 | mode: fp32 | optimizer: {type: adagrad, lr: 0.01}",
                "2 | 2 | zero: 2 | mode: fp32 | optimizer: {type: stableadamw, lr: 0.01}",
                "2 | 2 | zero: 2 | mode: fp32 | averaging: {ema: {decay: 0.9}}",
                "2 | 2 | zero: 2 | mode: fp32 | schedule: {type: OneCycleLR, max_lr: 0.01}",
                "3 | 3 | zero: 2 | mode: bf16 | optimizer: {type: adamw, lr: 0.01, states: {engine: torchao, format:"
                        + " fp8}}",
                "2 | 2 | zero: 2 | mode: bf16 | optimizer: {type: adamw, lr: 0.01, states: {engine: bf16}}",
                "2 | 4 | zero: 2 | mode: bf16 | optimizer: {type: adamw, lr: 0.01, states: {engine: bf16, masters:"
                        + " bf16}}",
                "2 | 2 | zero: 2 | mode: bf16 | optimizer: {type: adamw, lr: 0.01, states: {engine: te,"
                        + " store_param_remainders: true}}",
                "2 | 2 | zero: 2 | mode: fp32 | gradient_checkpointing: {match: act}",
                "2 | 2 | zero: 2 | mode: fp32 | train_only: [w2]",
                "2 | 2 | zero: 2 | mode: fp32 | data: {train: made, eval: more, shuffle: true} ; eval_every: 2 ;"
                        + " schedule: {type: reduce_lr_on_plateau, patience: 1}",
                "3 | 3 | zero: 3 | mode: bf16 |",
                "2 | 2 | zero: 3, bucket_size: 100 | mode: fp32 |",
                "3 | 3 | zero: 3 | mode: fp32 | optimizer: {type: sgd, lr: 0.1, momentum: 0.9, nesterov: true}",
                "2 | 2 | zero: 3 | mode: fp32 | optimizer: {type: lion, lr: 0.001}",
                "2 | 2 | zero: 3 | mode: fp32 | optimizer: {type: adagrad, lr: 0.01}"
            })
    void a_checkpoint_of_shares_has_the_bytes_of_the_run_that_keeps_all_with_every_optimizer(
            int ranks, int accumulation, String zero, String precision, @Nullable String line) throws IOException {
        requireSame(ranks, accumulation, zero, precision, line);
    }

    private void requireSame(int ranks, int accumulation, String zero, String precision, @Nullable String line)
            throws IOException {
        String[] lines = line == null ? new String[0] : line.split(" ; ", -1);
        String all = precision + ", gradient_reduction: f32";
        Path whole = folder.resolve("whole");
        run(parts(ranks, accumulation, "zero: 0", all, lines), whole, Collectives.alone(), RunOptions.defaults());
        Path shared = folder.resolve("shared");
        threads(ranks, parts(ranks, accumulation, zero, all, lines), shared, RunOptions.defaults());
        assertSame(whole, shared, STEPS);
    }

    private static final String F32 = "mode: fp32, gradient_reduction: f32";

    private static List<JsonNode> steps(Path run) throws IOException {
        List<JsonNode> steps = new ArrayList<>();
        for (String line : Files.readAllLines(run.resolve("metrics.jsonl"))) {
            JsonNode node = new ObjectMapper().readTree(line);
            if (node.has("grad_norm")) {
                steps.add(node);
            }
        }
        return steps;
    }

    @ParameterizedTest
    @CsvSource({"1, 4", "2, 4", "2, 8", "3, 4", "3, 8"})
    void losses_norms_and_skipped_steps_are_those_of_ranks_that_keep_all(int zero, int accumulation)
            throws IOException {
        String precision =
                "mode: fp16, gradient_reduction: f32, loss_scale: {type: torch, init_scale: 1.0e7, growth_interval: 3}";
        threads(4, parts(4, accumulation, "zero: 0", precision), folder.resolve("all"), RunOptions.defaults());
        threads(4, parts(4, accumulation, "zero: " + zero, precision), folder.resolve("own"), RunOptions.defaults());
        List<JsonNode> expected = steps(folder.resolve("all"));
        List<JsonNode> got = steps(folder.resolve("own"));
        assertEquals(STEPS, expected.size());
        assertTrue(expected.stream().anyMatch(s -> s.get("skipped").asBoolean()), "a scale of 1e7 overflows at first");
        for (int i = 0; i < STEPS; i++) {
            for (String key : List.of("step", "loss", "grad_norm", "loss_scale", "skipped", "lr")) {
                assertEquals(expected.get(i).get(key), got.get(i).get(key), key + " of step " + i);
            }
        }
    }

    @Test
    void a_loss_that_is_not_finite_on_one_rank_is_found_where_it_is_found_by_ranks_that_keep_all() {
        List<List<String>> found = new ArrayList<>();
        for (String zero : List.of("zero: 0", "zero: 2", "zero: 3")) {
            TrainingParts good = parts(2, 4, zero, F32);
            TrainingParts parts = new TrainingParts(
                    good.config(),
                    good.model(),
                    Optional.empty(),
                    SmallRun.spoiled(good.train()),
                    Optional.empty(),
                    Map.of());
            List<String> seen = new ArrayList<>();
            RankThreads.run(
                    2,
                    DEADLINE,
                    world -> run(
                            parts,
                            folder.resolve(zero.substring(6)),
                            world,
                            RunOptions.defaults().withHooks(List.of(new TrainingHook() {
                                @Override
                                public void nonFiniteSeen(NonFinite what) {
                                    if (world.isFirst()) {
                                        seen.add(what.step() + " " + what.what() + " " + what.where());
                                    }
                                }
                            }))));
            found.add(seen);
        }
        assertEquals(found.getFirst(), found.get(1));
        assertEquals(found.getFirst(), found.get(2));
        assertFalse(found.getFirst().isEmpty());
        for (String seen : found.getFirst()) {
            assertTrue(seen.endsWith("loss node 'first', Linear, forward (fprop): NaN"), seen);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {2, 3})
    void what_is_dropped_and_what_a_teacher_says_do_not_depend_on_the_stage(int zero) throws IOException {
        for (String loss : List.of(
                "loss: {type: cross-entropy}",
                "loss: {type: cross-entropy, distillation: {teacher: other, weight: 0.5}}")) {
            Path whole = Files.createTempDirectory(folder, "whole");
            Path shared = Files.createTempDirectory(folder, "shared");
            run(made(loss, 0), whole, Collectives.alone(), RunOptions.defaults());
            threads(2, made(loss, zero), shared, RunOptions.defaults());
            assertSame(whole, shared, STEPS);
        }
    }

    private static TrainingParts made(String loss, int zero) {
        String yaml = SmallRun.with(
                loss,
                "steps: " + STEPS,
                "gradient_accumulation: 2",
                "distributed: {zero: " + zero + "}",
                "precision: {ranks: 2, gradient_reduction: f32}");
        return loss.contains("teacher") ? SmallRun.taught(yaml) : SmallRun.dropping(yaml);
    }

    @Test
    void a_run_goes_on_at_any_stage_on_ranks_or_in_one_process_that_plays_them() throws IOException {
        Path whole = folder.resolve("whole");
        run(parts(3, 3, "zero: 0", F32), whole, Collectives.alone(), RunOptions.defaults());
        Path pieces = folder.resolve("pieces");
        threads(3, parts(3, 3, "zero: 2", F32), pieces, RunOptions.defaults().withMaxSteps(1));
        threads(3, parts(3, 3, "zero: 1", F32), pieces, resuming());
        run(parts(3, 3, "zero: 0", F32), pieces, Collectives.alone(), resuming());
        threads(3, parts(3, 3, "zero: 3", F32), pieces, resuming());
        threads(3, parts(3, 3, "zero: 0", F32), pieces, resuming());
        threads(3, parts(3, 3, "zero: 3", F32), pieces, resuming());
        threads(3, parts(3, 3, "zero: 1", F32), pieces, resuming().withMaxSteps(STEPS));
        assertSame(whole, pieces, STEPS);
    }

    private static RunOptions resuming() {
        return RunOptions.defaults().resuming().withMaxSteps(1);
    }

    /** From 4 ranks to 1, 2, 3 and 6, with moments in few bits and averages of weights. */
    @ParameterizedTest
    @CsvSource({"1, 0", "2, 0", "2, 1", "2, 2", "3, 2", "6, 3", "3, 3"})
    void a_checkpoint_of_shares_goes_on_with_another_number_of_ranks_as_a_whole_one_does(int ranks, int zero)
            throws IOException {
        String[] lines = {
            "optimizer: {type: adamw, lr: 0.01, states: {engine: torchao, format: fp8}}",
            "averaging: {ema: {decay: 0.9}}"
        };
        Path whole = folder.resolve("whole");
        threads(
                4,
                parts(4, 12, "zero: 0", F32, lines),
                whole,
                RunOptions.defaults().withMaxSteps(3));
        Path shares = folder.resolve("shares");
        threads(
                4,
                parts(4, 12, "zero: 3", F32, lines),
                shares,
                RunOptions.defaults().withMaxSteps(3));
        assertEquals(4, shards(shares, 3).size());
        String keys = "reshape: true, zero: " + zero;
        String precision = ranks == 1 ? "mode: fp32" : F32;
        for (Path run : List.of(whole, shares)) {
            TrainingParts parts = parts(ranks, 12, keys, precision, lines);
            threads(ranks, parts, run, RunOptions.defaults().resuming());
        }
        assertSame(whole, shares, STEPS);
    }

    private static List<Path> shards(Path run, long step) throws IOException {
        try (Stream<Path> files = Files.list(new CheckpointFolder(run).path(step))) {
            return files.filter(f -> f.getFileName().toString().startsWith("state-"))
                    .sorted()
                    .toList();
        }
    }

    @Test
    void another_number_of_ranks_is_refused_unless_it_is_accepted() throws IOException {
        threads(4, parts(4, 12, "zero: 2", F32), folder, RunOptions.defaults().withMaxSteps(2));
        TrainingParts two = parts(2, 12, "zero: 2", F32);
        UnavailableException failed = assertThrows(
                UnavailableException.class,
                () -> threads(2, two, folder, RunOptions.defaults().resuming()));
        InvalidOptionException why = assertInstanceOf(InvalidOptionException.class, failed.getCause());
        assertEquals(
                "the run cannot resume: it was on 4 ranks and is on 2, which add gradients in another order",
                why.what());
        assertTrue(why.fix().contains("distributed.reshape=true"), why.fix());
    }

    @Test
    void a_share_of_a_rank_that_is_missing_and_one_of_another_step_are_named() throws IOException {
        TrainingParts parts = parts(3, 3, "zero: 1", F32, "checkpoint: {every: 1, keep: 10}");
        threads(3, parts, folder, RunOptions.defaults().withMaxSteps(3));
        Path second = shards(folder, 3).get(1);
        byte[] good = Files.readAllBytes(second);
        Files.write(second, Files.readAllBytes(shards(folder, 2).get(1)));
        CheckpointFolder checkpoints = new CheckpointFolder(folder);
        MalformedModelException other = assertThrows(MalformedModelException.class, checkpoints::openNewest);
        assertEquals(
                "checkpoint step-3 is damaged: state-00002-of-00003.safetensors is of step 2, not 3: the share of rank"
                        + " 1 of 3",
                other.what());
        assertEquals("step-2 is good: resume with --from-step 2, or export it with --step 2", other.fix());
        Files.delete(second);
        MalformedModelException missing = assertThrows(MalformedModelException.class, checkpoints::openNewest);
        assertEquals(
                "checkpoint step-3 is damaged: state-00002-of-00003.safetensors is missing: the share of rank 1 of 3",
                missing.what());
        good[good.length - 1] ^= 1;
        Files.write(second, good);
        MalformedModelException bad = assertThrows(MalformedModelException.class, checkpoints::openNewest);
        assertTrue(bad.what().startsWith("checkpoint step-3 is damaged: state-00002-of-00003.safetensors has SHA"));
        assertTrue(bad.what().endsWith(": the share of rank 1 of 3"), bad.what());
    }

    @Test
    void a_hook_that_reads_gradients_is_refused_where_no_rank_has_all() {
        TrainingHook reads = new TrainingHook() {
            @Override
            public boolean watchesGradients() {
                return true;
            }
        };
        TrainingParts parts = parts(2, 2, "zero: 2", F32);
        UnavailableException failed = assertThrows(
                UnavailableException.class,
                () -> threads(2, parts, folder, RunOptions.defaults().withHooks(List.of(reads))));
        InvalidOptionException why = assertInstanceOf(InvalidOptionException.class, failed.getCause());
        assertTrue(why.where().startsWith("distributed.zero: 2"), why.where());
    }

    @Test
    void codes_of_gradients_are_averaged_with_stage_1_and_refused_with_stage_2() throws IOException {
        String precision = "mode: bf16, gradient_reduction: min-scale";
        Path whole = folder.resolve("whole");
        run(parts(2, 2, "zero: 0", precision), whole, Collectives.alone(), RunOptions.defaults());
        Path shared = folder.resolve("shared");
        threads(2, parts(2, 2, "zero: 1", precision), shared, RunOptions.defaults());
        assertSame(whole, shared, STEPS);
        TrainingParts parts = parts(2, 2, "zero: 2", precision);
        UnavailableException failed = assertThrows(
                UnavailableException.class, () -> threads(2, parts, folder.resolve("no"), RunOptions.defaults()));
        InvalidOptionException why = assertInstanceOf(InvalidOptionException.class, failed.getCause());
        assertTrue(why.where().startsWith("precision.gradient_reduction: min-scale"), why.where());
    }

    @Test
    void ranks_with_different_stages_are_named_before_the_first_step() {
        UnavailableException failed = assertThrows(
                UnavailableException.class,
                () -> RankThreads.run(
                        2,
                        DEADLINE,
                        world -> run(
                                parts(2, 2, "zero: " + (1 + world.rank()), F32),
                                folder.resolve("run"),
                                world,
                                RunOptions.defaults())));
        InvalidOptionException why = assertInstanceOf(InvalidOptionException.class, failed.getCause());
        assertTrue(why.what().contains("distributed.zero is 2, not 1"), why.what());
    }

    /** Ranks, and groups of them, whose largest share of an all-gather is kept. */
    private static Collectives watched(Collectives ranks, AtomicLong largest) {
        return (Collectives) Proxy.newProxyInstance(
                Collectives.class.getClassLoader(), new Class<?>[] {Collectives.class}, (_, method, arguments) -> {
                    if (method.getName().equals("allGather") && arguments[0] instanceof List<?> shares) {
                        shares.forEach(s -> largest.accumulateAndGet(((MemorySegment) s).byteSize(), Math::max));
                    }
                    Object result = method.invoke(ranks, arguments);
                    return result instanceof Collectives group ? watched(group, largest) : result;
                });
    }

    /** The most bytes that a rank gives the others at once, with a message for each step that reads weights. */
    private long largestMessage(String precision, String name) {
        AtomicLong largest = new AtomicLong();
        TrainingParts parts = parts(2, 2, "zero: 3, bucket_size: 1", precision);
        RankThreads.run(
                2, DEADLINE, world -> run(parts, folder.resolve(name), watched(world, largest), RunOptions.defaults()));
        return largest.get();
    }

    @ParameterizedTest
    @ValueSource(strings = {"mode: fp8", "mode: fp8, recipe: tensorwise", "mode: fp8, recipe: rowwise"})
    void weights_travel_as_fp8_codes_where_products_read_codes(String precision) {
        long floats = (long) SmallRun.IN * SmallRun.HIDDEN * Float.BYTES;
        assertTrue(largestMessage(F32, "floats") >= floats);
        // codes of both orientations, scales and biases
        assertTrue(largestMessage(precision + ", gradient_reduction: f32", "codes") < floats);
    }

    @Test
    void more_ranks_than_parameters_leave_some_with_nothing_to_update() throws IOException {
        Path whole = folder.resolve("whole");
        run(parts(6, 6, "zero: 0", F32), whole, Collectives.alone(), RunOptions.defaults());
        Path shared = folder.resolve("shared");
        threads(6, parts(6, 6, "zero: 2", F32), shared, RunOptions.defaults());
        assertSame(whole, shared, STEPS);
    }
}
