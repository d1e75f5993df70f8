package dev.octet.pipeline;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.RankThreads;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.hook.RunPlan;
import dev.octet.trainer.hook.ZeroPlan;
import dev.octet.trainer.reduction.GradientReduction;
import dev.octet.trainer.step.StepResult;
import dev.octet.trainer.yaml.YamlFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Tiny GPT-2, Llama and ViT trained by one to four ranks, beside one process that knows of no ranks. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class RanksOfModelsTest {
    private static final Path MODELS =
            Path.of(System.getProperty("octet.testdata")).resolve("models/tiny-onnx");
    private static final int STEPS = 20;

    @TempDir
    Path folder;

    private String data(String model) throws IOException {
        return TinyData.lines(model, folder);
    }

    private TrainingConfig config(String text, int ranks) {
        return TrainingConfig.of(YamlFile.parse(text, "c.yaml"), folder, ranks);
    }

    private List<StepResult> steps(String model, String text, Collectives world) throws IOException {
        List<StepResult> results = new ArrayList<>();
        Path file = MODELS.resolve(model + "_eager_dynamo18.onnx");
        try (TrainingJob job = TrainingJob.open(
                file, config(text, world.size()), DeviceName.CPU, Job.defaults().withThreads(1), world)) {
            for (long step = 1; step <= STEPS; step++) {
                results.add(job.trainer().step(step));
            }
        }
        return results;
    }

    @ParameterizedTest
    @ValueSource(strings = {"gpt2", "llama", "vit"})
    void losses_of_twenty_steps_in_F32_are_those_of_one_process(String model) throws IOException {
        requireSameLosses(model, 3, 3);
    }

    @Tag("sweep")
    @ParameterizedTest
    @ValueSource(strings = {"gpt2", "llama", "vit"})
    void losses_of_twenty_steps_on_one_to_four_ranks_are_those_of_one_process(String model) throws IOException {
        requireSameLosses(model, 12, 1, 2, 3, 4);
    }

    private void requireSameLosses(String model, int microBatches, int... counts) throws IOException {
        String text = data(model) + "batch_size: 2\nsteps: " + STEPS + "\ngradient_accumulation: " + microBatches
                + "\noptimizer: {type: adamw, lr: 1.0e-3}\nclip_grad_norm: 1.0\n";
        List<StepResult> one = steps(model, text, Collectives.alone());
        for (int ranks : counts) {
            List<List<StepResult>> all =
                    RankThreads.run(ranks, Duration.ofSeconds(60), world -> steps(model, text, world));
            for (List<StepResult> rank : all) {
                assertEquals(all.getFirst(), rank, "what ranks know of a step is the same on all");
            }
            for (int i = 0; i < STEPS; i++) {
                String where = ranks + " ranks, step " + (i + 1);
                // gradients are added up in another order; AdamW makes of that at most some units in the last place
                assertEquals(one.get(i).loss(), all.getFirst().get(i).loss(), 1e-6, where);
                assertEquals(
                        one.get(i).gradNorm(),
                        all.getFirst().get(i).gradNorm(),
                        1e-5 * one.get(i).gradNorm(),
                        where);
            }
        }
    }

    /** A step of three micro-batches for three ranks, one each, and of six, whose gradients a rank adds up first. */
    @ParameterizedTest
    @CsvSource({"gpt2, 3, bf16", "gpt2, 6, fp32", "llama, 3, fp32", "vit, 3, bf16"})
    void what_ranks_share_out_changes_no_bit_of_losses_and_norms(String model, int microBatches, String mode)
            throws IOException {
        String text = data(model) + "batch_size: 2\nsteps: " + STEPS + "\ngradient_accumulation: " + microBatches
                + "\noptimizer: {type: adamw, lr: 1.0e-3}\nclip_grad_norm: 1.0\nprecision: {mode: " + mode + "}\n";
        List<StepResult> whole = ranks(model, text);
        for (int zero = 1; zero <= 3; zero++) {
            assertEquals(whole, ranks(model, text + "distributed: {zero: " + zero + "}\n"), "zero: " + zero);
        }
        // weights and gradients that travel one by one, and layers that are computed again
        String small = text + "distributed: {zero: 3, bucket_size: 4096}\ngradient_checkpointing: {layers: all}\n";
        assertEquals(whole, ranks(model, small));
    }

    private List<StepResult> ranks(String model, String text) {
        return RankThreads.run(3, Duration.ofSeconds(60), world -> steps(model, text, world))
                .getFirst();
    }

    /** Bytes that the ranks have between steps and within one, of the one that has most, and what was planned for it. */
    @ParameterizedTest
    @CsvSource({"gpt2, 4, bf16", "gpt2, 8, fp32", "llama, 4, fp32"})
    void the_memory_planned_for_each_stage_is_that_which_ranks_have(String model, int microBatches, String mode)
            throws IOException {
        Path file = MODELS.resolve(model + "_eager_dynamo18.onnx");
        String text = data(model) + "batch_size: 2\nsteps: 2\ngradient_accumulation: " + microBatches
                + "\noptimizer: {type: adamw, lr: 1.0e-3}\nprecision: {ranks: 4, gradient_reduction: f32, mode: " + mode
                + "}\ndistributed: {zero: ";
        ZeroPlan planned;
        try (TrainingJob job = TrainingJob.open(
                file, config(text + "0}\n", 1), DeviceName.CPU, Job.defaults().withThreads(1))) {
            planned = job.trainer().zeroPlan().orElseThrow();
        }
        for (ZeroPlan.Stage stage : planned.stages()) {
            String of = text + stage.zero() + "}\n";
            List<RunPlan> ranks = RankThreads.run(4, Duration.ofSeconds(60), world -> {
                try (TrainingJob job = TrainingJob.open(
                        file, config(of, 4), DeviceName.CPU, Job.defaults().withThreads(1), world)) {
                    job.trainer().step(1);
                    return job.trainer().plan();
                }
            });
            RunPlan most = ranks.stream()
                    .max(Comparator.comparingLong(RunPlan::lastingBytes))
                    .orElseThrow();
            assertEquals(most.lastingBytes(), stage.lastingBytes(), "zero: " + stage.zero());
            assertTrue(
                    ranks.stream()
                            .anyMatch(r -> r.lastingBytes() == stage.lastingBytes()
                                    && r.temporaryBytes() == stage.temporaryBytes()),
                    "zero: " + stage.zero());
        }
        for (int i = 1; i < planned.stages().size(); i++) {
            assertTrue(
                    planned.stages().get(i).bytes()
                            < planned.stages().get(i - 1).bytes(),
                    planned.toString());
        }
    }

    @Test
    void the_page_has_the_memory_that_is_planned_for_tiny_gpt2() throws IOException {
        String text = data("gpt2") + "batch_size: 2\nsteps: 2\ngradient_accumulation: 4\noptimizer: {type: adamw}\n"
                + "precision: {ranks: 4, gradient_reduction: f32, mode: bf16}\n";
        ZeroPlan planned;
        try (TrainingJob job = TrainingJob.open(
                MODELS.resolve("gpt2_eager_dynamo18.onnx"),
                config(text.replace("sequence: 6", "sequence: 8"), 1),
                DeviceName.CPU,
                Job.defaults().withThreads(1))) {
            planned = job.trainer().zeroPlan().orElseThrow();
        }
        List<String> rows = Files.readAllLines(
                Path.of(System.getProperty("octet.root", "..")).resolve("docs/distributed.md"));
        for (ZeroPlan.Stage stage : planned.stages()) {
            String row = String.format(
                    Locale.ROOT,
                    "| %d | %.1f kB | %.1f kB | %.1f |",
                    stage.zero(),
                    stage.bytes() / 1e3,
                    stage.lastingBytes() / 1e3,
                    stage.lastingBytes() / 30_752.0);
            assertTrue(rows.contains(row), row);
        }
    }

    @Test
    void a_configuration_takes_what_it_leaves_out_about_ranks_from_their_number() throws IOException {
        String text = data("gpt2") + "steps: 1\ngradient_accumulation: 2\noptimizer: {type: adamw, lr: 1.0e-3}\n";
        assertEquals(GradientReduction.F32, config(text, 2).precision().ranks().reduction());
        assertEquals(2, config(text, 2).precision().ranks().ranks());
        assertEquals(1, config(text, 1).precision().ranks().ranks());
        assertEquals(
                GradientReduction.MIN_SCALE,
                config(text + "precision: {ranks: 2}\n", 2).precision().ranks().reduction());
        assertEquals(
                GradientReduction.MIN_SCALE,
                config(text + "precision: {mode: msamp}\n", 2)
                        .precision()
                        .ranks()
                        .reduction());
        assertEquals(
                GradientReduction.DDP,
                config(text + "precision: {gradient_reduction: ddp}\n", 2)
                        .precision()
                        .ranks()
                        .reduction());
    }

    @Test
    void another_number_of_ranks_than_of_processes_is_refused_and_so_are_micro_batches_that_they_cannot_share()
            throws IOException {
        String text = data("gpt2") + "steps: 1\ngradient_accumulation: 4\noptimizer: {type: adamw, lr: 1.0e-3}\n";
        InvalidOptionException other =
                assertThrows(InvalidOptionException.class, () -> config(text + "precision: {ranks: 4}\n", 2));
        assertEquals("the run has 2 processes, and each is one rank", other.what());
        InvalidOptionException uneven = assertThrows(InvalidOptionException.class, () -> config(text, 3));
        assertEquals("3 ranks cannot share 4 micro-batches a step evenly", uneven.what());
    }
}
