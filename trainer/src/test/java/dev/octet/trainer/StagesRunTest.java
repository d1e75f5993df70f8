package dev.octet.trainer;

import static dev.octet.trainer.RankRuns.DEADLINE;
import static dev.octet.trainer.RankRuns.assertSame;
import static dev.octet.trainer.RankRuns.run;
import static dev.octet.trainer.RankRuns.threads;
import static org.junit.jupiter.api.Assertions.assertEquals;
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
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Runs of two stages, and of two pipelines of two stages, beside the run in which one process has the whole model. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class StagesRunTest {
    private static final int STEPS = 7;

    @TempDir
    Path folder;

    /** @param data pipelines, or ranks that one process plays */
    private static String yaml(int data, int accumulation, String distributed, String precision, String... lines) {
        List<String> all = new ArrayList<>(List.of(
                "steps: " + STEPS,
                "gradient_accumulation: " + accumulation,
                "distributed: {" + distributed + "}",
                "precision: {" + precision + averaging(data, precision) + "}"));
        all.addAll(List.of(lines));
        return SmallRun.with(all.toArray(String[]::new));
    }

    private static String averaging(int data, String precision) {
        if (data == 1) {
            return "";
        }
        return (precision.contains("gradient_reduction") ? "" : ", gradient_reduction: f32") + ", ranks: " + data;
    }

    private static TrainingParts parts(
            int data, int accumulation, String distributed, String precision, String... lines) {
        return SmallRun.parts(yaml(data, accumulation, distributed, precision, lines));
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "1 | 1 | pipeline: 2 | mode: fp32 |",
                "1 | 4 | pipeline: 2 | mode: bf16 |",
                "1 | 4 | pipeline: 2 | mode: fp8, amax_history_len: 4 |",
                "1 | 3 | pipeline: 2 | mode: fp8, recipe: mxfp8 |",
                "1 | 4 | pipeline: 2 | mode: fp16, loss_scale: {type: torch, init_scale: 1.0e7, growth_interval: 3} |",
                "1 | 4 | pipeline: 2 | mode: O2 |",
                "2 | 4 | pipeline: 2 | mode: fp8, amax_history_len: 4 |",
                "2 | 4 | pipeline: 2, zero: 1 | mode: bf16 |",
                "2 | 6 | pipeline: 2, zero: 1, bucket_size: 100 | mode: fp8 | optimizer: {type: muon, lr: 0.01}",
                "2 | 4 | pipeline: 2, zero: 2 | mode: fp8, amax_history_len: 4 | optimizer: {type: muon, lr: 0.01}",
                "2 | 2 | pipeline: 2, zero: 2, bucket_size: 100 | mode: O2 |",
                "2 | 4 | pipeline: 2, zero: 3 | mode: fp8, amax_history_len: 4 |",
                "2 | 6 | pipeline: 2, zero: 3, bucket_size: 100 | mode: bf16 | averaging: {ema: {decay: 0.9}} ;"
                        + " gradient_checkpointing: {match: act} ; eval_every: 2 ; data: {train: made, eval: more}",
                "2 | 4 | pipeline: 2, zero: 3 | mode: bf16 | optimizer: {type: adamw, lr: 0.01, states: {engine: te,"
                        + " store_param_remainders: true}}",
                "1 | 4 | pipeline: 2, zero: 3 | mode: bf16 |",
                "1 | 4 | pipeline: 2 | mode: msamp |",
                "2 | 4 | pipeline: 2 | mode: msamp, opt_level: O3, gradient_reduction: legacy |",
                "2 | 4 | pipeline: 2, zero: 1 | mode: msamp, gradient_reduction: min-scale |",
                "2 | 4 | pipeline: 2 | mode: bf16, gradient_reduction: legacy |",
                "1 | 4 | pipeline: 2 | mode: fp32 | averaging: {ema: {decay: 0.9}} ; gradient_checkpointing: {match:"
                        + " act}",
                "1 | 4 | pipeline: 2 | mode: fp32 | train_only: [w2]",
                "1 | 4 | pipeline: 2 | mode: qat, weights: {format: int4}, inputs: {format: int8} |",
                "2 | 4 | pipeline: 2, zero: 1 | mode: qat, method: lsq+, weights: {format: int4}, inputs: {format:"
                        + " uint4} |",
                "2 | 4 | pipeline: 2, zero: 1 | mode: bf16 | adapter: {r: 2, lora_alpha: 4, target_modules: [first,"
                        + " second], lora_dropout: 0.2} ; eval_every: 2 ; data: {train: made, eval: more}",
                "1 | 4 | pipeline: 2 | mode: bf16 | optimizer: {type: adamw, lr: 0.01, states: {engine: torchao,"
                        + " format: fp8}}",
                "2 | 4 | pipeline: 2 | mode: bf16 | optimizer: {type: adamw, lr: 0.01, states: {engine: te,"
                        + " store_param_remainders: true}}",
                "2 | 4 | pipeline: 2, zero: 1 | mode: bf16 | batch_size: 6 ; data: {train: made, eval: more, shuffle:"
                    + " true} ; eval_every: 2 ; eval_on_start: true ; schedule: {type: reduce_lr_on_plateau, patience:"
                    + " 1}"
            })
    void a_checkpoint_of_stages_has_the_bytes_of_the_run_that_has_the_whole_model(
            int data, int accumulation, String distributed, String precision, @Nullable String line)
            throws IOException {
        requireSame(data, accumulation, distributed, precision, line);
    }

    @Tag("sweep")
    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "1 | 4 | pipeline: 2 | mode: fp32 | optimizer: {type: sgd, lr: 0.1, momentum: 0.9, nesterov: true}",
                "1 | 4 | pipeline: 2 | mode: fp32 | optimizer: {type: adafactor, lr: 0.01}",
                "1 | 4 | pipeline: 2 | mode: fp32 | optimizer: {type: lamb, lr: 0.01}",
                "1 | 4 | pipeline: 2 | mode: fp32 | optimizer: {type: lion, lr: 0.001}",
                "1 | 4 | pipeline: 2 | mode: fp32 | optimizer: {type: adagrad, lr: 0.01}",
                "1 | 4 | pipeline: 2 | mode: fp32 | optimizer: {type: stableadamw, lr: 0.01}",
                "1 | 4 | pipeline: 2 | mode: fp32 | averaging: {swa: {start: 2, every: 2}}",
                "1 | 4 | pipeline: 2 | mode: fp32 | schedule: {type: OneCycleLR, max_lr: 0.01}",
                "1 | 4 | pipeline: 2 | mode: bf16 | optimizer: {type: adamw, lr: 0.01, states: {engine: bf16}}",
                "1 | 4 | pipeline: 2 | mode: bf16 | optimizer: {type: adamw, lr: 0.01, states: {engine: bf16, masters:"
                        + " bf16}}",
                "1 | 4 | pipeline: 2 | mode: fp8, recipe: current |",
                "1 | 4 | pipeline: 2 | mode: fp8, recipe: block |",
                "2 | 4 | pipeline: 2 | mode: fp16, loss_scale: {type: torch, init_scale: 1.0e7, growth_interval: 3} |",
                "3 | 6 | pipeline: 2 | mode: fp32 |",
                "3 | 6 | pipeline: 2, zero: 2 | mode: fp32 | optimizer: {type: adafactor, lr: 0.01}",
                "2 | 4 | pipeline: 2, zero: 2 | mode: qat, method: lsq+, weights: {format: int4}, inputs: {format:"
                        + " uint4} |",
                "2 | 4 | pipeline: 2, zero: 3 | mode: fp32 | train_only: [w2]",
                "2 | 4 | pipeline: 2, zero: 3 | mode: bf16 | adapter: {r: 2, lora_alpha: 4, target_modules: [first,"
                        + " second], lora_dropout: 0.2}",
                "2 | 4 | pipeline: 2, zero: 3 | mode: fp8, recipe: mxfp8 | optimizer: {type: adamw, lr: 0.01, states:"
                        + " {engine: torchao, format: fp8}}",
                "2 | 4 | pipeline: 2, zero: 2 | mode: fp16, loss_scale: {type: torch, init_scale: 1.0e7,"
                        + " growth_interval: 3} |",
                "2 | 4 | pipeline: 2 | mode: msamp, opt_level: O1, gradient_reduction: ddp |",
                "2 | 4 | pipeline: 2 | mode: fp8, gradient_reduction: min-scale |"
            })
    void a_checkpoint_of_stages_has_the_bytes_of_the_whole_run_with_every_optimizer(
            int data, int accumulation, String distributed, String precision, @Nullable String line)
            throws IOException {
        requireSame(data, accumulation, distributed, precision, line);
    }

    private void requireSame(int data, int accumulation, String distributed, String precision, @Nullable String line)
            throws IOException {
        String[] lines = line == null ? new String[0] : line.split(" ; ", -1);
        Path whole = folder.resolve("whole");
        run(parts(data, accumulation, "", precision, lines), whole, Collectives.alone(), RunOptions.defaults());
        Path staged = folder.resolve("staged");
        threads(2 * data, parts(data, accumulation, distributed, precision, lines), staged, RunOptions.defaults());
        assertSame(whole, staged, STEPS);
        assertEquals(steps(whole), steps(staged));
    }

    /** What the first rank has written of steps that does not depend on the clock or on memory. */
    private static List<Map<String, JsonNode>> steps(Path run) throws IOException {
        List<Map<String, JsonNode>> steps = new ArrayList<>();
        for (String line : Files.readAllLines(run.resolve("metrics.jsonl"))) {
            JsonNode node = new ObjectMapper().readTree(line);
            Map<String, JsonNode> kept = new TreeMap<>();
            for (String key : List.of(
                    "step", "loss", "grad_norm", "loss_scale", "skipped", "lr", "samples", "tokens", "eval_loss")) {
                if (node.has(key)) {
                    kept.put(key, node.get(key));
                }
            }
            steps.add(kept);
        }
        return steps;
    }

    private static RunOptions one() {
        return RunOptions.defaults().resuming().withMaxSteps(1);
    }

    @Test
    void a_run_goes_on_with_stages_with_one_process_and_with_another_mesh() throws IOException {
        Path whole = folder.resolve("whole");
        run(parts(2, 4, "", "mode: bf16"), whole, Collectives.alone(), RunOptions.defaults());
        Path pieces = folder.resolve("pieces");
        String reshape = "reshape: true";
        threads(
                4,
                parts(2, 4, "pipeline: 2", "mode: bf16"),
                pieces,
                RunOptions.defaults().withMaxSteps(1));
        threads(4, parts(2, 4, "pipeline: 2, zero: 1", "mode: bf16"), pieces, one());
        run(parts(2, 4, reshape, "mode: bf16"), pieces, Collectives.alone(), one());
        threads(4, parts(2, 4, "reshape: true, pipeline: 2", "mode: bf16"), pieces, one());
        threads(2, parts(2, 4, "reshape: true, zero: 3", "mode: bf16"), pieces, one());
        threads(4, parts(2, 4, "reshape: true, pipeline: 2, zero: 3", "mode: bf16"), pieces, one());
        threads(4, parts(2, 4, "pipeline: 2, zero: 2", "mode: bf16"), pieces, one().withMaxSteps(STEPS));
        assertSame(whole, pieces, STEPS);
    }

    @Test
    void what_is_dropped_and_what_a_teacher_says_do_not_depend_on_the_stages() throws IOException {
        for (String loss : List.of(
                "loss: {type: cross-entropy}",
                "loss: {type: cross-entropy, distillation: {teacher: other, weight: 0.5}}")) {
            Path whole = Files.createTempDirectory(folder, "whole");
            Path staged = Files.createTempDirectory(folder, "staged");
            run(made(yaml(1, 4, "", "mode: fp32", loss)), whole, Collectives.alone(), RunOptions.defaults());
            threads(2, made(yaml(1, 4, "pipeline: 2", "mode: fp32", loss)), staged, RunOptions.defaults());
            assertSame(whole, staged, STEPS);
        }
    }

    private static TrainingParts made(String yaml) {
        return yaml.contains("teacher") ? SmallRun.taught(yaml) : SmallRun.dropping(yaml);
    }

    @Test
    void each_rank_writes_its_share_of_a_checkpoint_and_one_that_is_missing_is_named() throws IOException {
        threads(4, parts(2, 4, "pipeline: 2", "mode: fp32"), folder, RunOptions.defaults());
        Path checkpoint = new CheckpointFolder(folder).path(STEPS);
        for (String kind : List.of("parameters", "state")) {
            for (int r = 1; r <= 4; r++) {
                assertTrue(
                        Files.exists(checkpoint.resolve(kind + "-0000" + r + "-of-00004.safetensors")), kind + " " + r);
            }
        }
        Files.delete(checkpoint.resolve("parameters-00003-of-00004.safetensors"));
        MalformedModelException missing =
                assertThrows(MalformedModelException.class, new CheckpointFolder(folder)::openNewest);
        assertTrue(
                missing.what().endsWith("parameters-00003-of-00004.safetensors is missing: the share of rank 2 of 4"),
                missing.what());
    }

    @Test
    void a_loss_that_is_not_finite_is_found_where_one_process_finds_it() throws IOException {
        List<List<String>> found = new ArrayList<>();
        for (int ranks : List.of(1, 2, 4)) {
            int data = Math.max(1, ranks / 2);
            TrainingParts good = parts(data, 4, ranks == 1 ? "" : "pipeline: 2", "mode: fp32");
            TrainingParts parts = new TrainingParts(
                    good.config(),
                    good.model(),
                    Optional.empty(),
                    SmallRun.spoiled(good.train()),
                    Optional.empty(),
                    Map.of());
            List<String> seen = new ArrayList<>();
            Path run = folder.resolve("run" + ranks);
            RankThreads.run(
                    ranks,
                    DEADLINE,
                    world -> run(parts, run, world, RunOptions.defaults().withHooks(List.of(new TrainingHook() {
                        @Override
                        public void nonFiniteSeen(NonFinite what) {
                            if (world.isFirst()) {
                                seen.add(what.step() + " " + what.what() + " " + what.where());
                            }
                        }
                    }))));
            found.add(seen);
        }
        assertTrue(found.getFirst().getFirst().endsWith("loss node 'first', Linear, forward (fprop): NaN"));
        assertEquals(found.getFirst(), found.get(1));
        assertEquals(found.getFirst(), found.get(2));
    }

    private static InvalidOptionException refused(int ranks, TrainingParts parts, Path run, RunOptions options) {
        UnavailableException failed =
                assertThrows(UnavailableException.class, () -> threads(ranks, parts, run, options));
        return assertInstanceOf(InvalidOptionException.class, failed.getCause());
    }

    @Test
    void more_stages_than_places_to_cut_are_refused_with_how_many_there_are() {
        InvalidOptionException why =
                refused(3, parts(1, 3, "pipeline: 3", "mode: fp32"), folder, RunOptions.defaults());
        assertEquals(
                "the model cannot be cut into 3 parts, only into 2 with a product of matrices each, between which one"
                        + " activation passes",
                why.what());
        assertEquals("distributed: {pipeline: 3}", why.where());
        assertEquals("set pipeline to 2 or fewer", why.fix());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "1 | 3 | pipeline: 2, chunks: 2 | mode: fp32 | | distributed.chunks: 2, gradient_accumulation: 3; rank",
                "2 | 4 | pipeline: 2, chunks: 2 | mode: bf16, gradient_reduction: legacy | | distributed.chunks: 2,"
                        + " precision.gradient_reduction: legacy; rank",
                "2 | 4 | pipeline: 2, zero: 2 | mode: bf16, gradient_reduction: legacy | |"
                        + " precision.gradient_reduction: legacy; rank"
            })
    void what_stages_cannot_do_is_refused_with_the_key(
            int data, int accumulation, String distributed, String precision, @Nullable String line, String where) {
        String[] lines = line == null ? new String[0] : new String[] {line};
        InvalidOptionException why = refused(
                2 * data, parts(data, accumulation, distributed, precision, lines), folder, RunOptions.defaults());
        assertTrue(why.where().startsWith(where), why.where());
    }

    @Test
    void a_hook_that_reads_gradients_is_refused_where_no_rank_has_all() {
        TrainingHook reads = new TrainingHook() {
            @Override
            public boolean watchesGradients() {
                return true;
            }
        };
        InvalidOptionException why = refused(
                2,
                parts(1, 2, "pipeline: 2", "mode: fp32"),
                folder,
                RunOptions.defaults().withHooks(List.of(reads)));
        assertTrue(why.where().startsWith("distributed.pipeline: 2"), why.where());
    }

    @Test
    void another_number_of_stages_is_refused_unless_it_is_accepted() throws IOException {
        threads(
                2,
                parts(1, 4, "pipeline: 2", "mode: fp32"),
                folder,
                RunOptions.defaults().withMaxSteps(2));
        InvalidOptionException why = assertThrows(
                InvalidOptionException.class,
                () -> run(
                        parts(1, 4, "", "mode: fp32"),
                        folder,
                        Collectives.alone(),
                        RunOptions.defaults().resuming()));
        assertTrue(why.what().contains("pipeline"), why.what());
        assertTrue(why.fix().contains("distributed.reshape=true"), why.fix());
    }
}
