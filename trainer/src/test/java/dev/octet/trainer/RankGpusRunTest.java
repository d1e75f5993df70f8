package dev.octet.trainer;

import static dev.octet.trainer.RankRuns.DEADLINE;
import static dev.octet.trainer.RankRuns.assertSame;
import static dev.octet.trainer.RankRuns.run;

import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.RankThreads;
import dev.octet.trainer.device.cuda.TestGpus;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Runs of ranks with a GPU each that share out states, gradients and weights, or are stages of a pipeline, beside the run in which one GPU plays all ranks and keeps all. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class RankGpusRunTest {
    private static final int STEPS = 4;

    @TempDir
    Path folder;

    private static TrainingParts parts(
            int ranks, int accumulation, String distributed, String precision, String... lines) {
        List<String> all = new ArrayList<>(List.of(
                "steps: " + STEPS,
                "gradient_accumulation: " + accumulation,
                "distributed: {" + distributed + "}",
                "precision: {" + precision + (ranks == 1 ? "" : ", ranks: " + ranks) + "}"));
        all.addAll(List.of(lines));
        return SmallRun.parts(SmallRun.with(all.toArray(String[]::new)));
    }

    private void requireSame(
            int processes, int ranks, int accumulation, String distributed, String precision, @Nullable String line)
            throws IOException {
        String[] lines = line == null ? new String[0] : line.split(" ; ", -1);
        String all = precision + (ranks == 1 ? "" : ", gradient_reduction: f32");
        Path whole = folder.resolve("whole");
        run(
                parts(ranks, accumulation, "zero: 0", all, lines),
                TestGpus.ownDevice(),
                whole,
                Collectives.alone(),
                RunOptions.defaults());
        Path shared = folder.resolve("shared");
        TrainingParts parts = parts(ranks, accumulation, distributed, all, lines);
        RankThreads.run(
                processes,
                DEADLINE,
                world -> run(parts, TestGpus.ownDevice(), shared, world, RunOptions.defaults()));
        assertSame(whole, shared, STEPS);
    }

    @Tag("kernels")
    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "2 | 2 | zero: 1 | mode: fp32 |",
                "2 | 4 | zero: 1 | mode: fp8 |",
                "2 | 4 | zero: 2 | mode: bf16 |",
                "2 | 2 | zero: 2, bucket_size: 100 | mode: fp32 |",
                "2 | 4 | zero: 2 | mode: fp8, amax_history_len: 4 |",
                "2 | 2 | zero: 3 | mode: fp32 |",
                "2 | 4 | zero: 3, bucket_size: 100 | mode: bf16 | gradient_checkpointing: {match: act}",
                "2 | 2 | zero: 3 | mode: fp8 |",
                "2 | 4 | zero: 3 | mode: fp8, recipe: mxfp8 |",
                "2 | 2 | zero: 3 | mode: fp16, loss_scale: {type: torch, init_scale: 1.0e7, growth_interval: 3} |",
                "2 | 2 | zero: 3 | mode: fp32 | optimizer: {type: muon, lr: 0.01}",
                "2 | 2 | zero: 3 | mode: fp32 | averaging: {ema: {decay: 0.9}}",
                "2 | 2 | zero: 3 | mode: bf16 | optimizer: {type: adamw, lr: 0.01, states: {engine: te,"
                        + " store_param_remainders: true}}",
                "2 | 4 | zero: 3 | mode: fp32 | adapter: {r: 2, lora_alpha: 4, target_modules: [first, second],"
                        + " lora_dropout: 0.2}",
            })
    void a_checkpoint_of_shares_has_the_bytes_of_the_GPU_that_keeps_all(
            int ranks, int accumulation, String zero, String precision, @Nullable String line) throws IOException {
        requireSame(ranks, ranks, accumulation, zero, precision, line);
    }

    @Tag("kernels")
    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "1 | 4 | pipeline: 2 | mode: bf16 |",
                "1 | 4 | pipeline: 2 | mode: fp8, amax_history_len: 4 |",
                "2 | 4 | pipeline: 2, zero: 1 | mode: fp32 |",
                "2 | 4 | pipeline: 2, zero: 3 | mode: fp8, amax_history_len: 4 |",
                "1 | 4 | pipeline: 2 | mode: fp32 | averaging: {ema: {decay: 0.9}} ; gradient_checkpointing: {match:"
                        + " act}",
            })
    void a_checkpoint_of_stages_has_the_bytes_of_the_GPU_that_has_the_whole_model(
            int data, int accumulation, String distributed, String precision, @Nullable String line)
            throws IOException {
        requireSame(2 * data, data, accumulation, distributed, precision, line);
    }
}
