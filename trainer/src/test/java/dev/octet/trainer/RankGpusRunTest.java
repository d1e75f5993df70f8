package dev.octet.trainer;

import static dev.octet.trainer.RankRuns.DEADLINE;
import static dev.octet.trainer.RankRuns.assertSame;
import static dev.octet.trainer.RankRuns.run;
import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
import dev.octet.converter.TrainingGraph;
import dev.octet.converter.pass.PassLog;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.RankThreads;
import dev.octet.trainer.device.cuda.TestGpus;
import dev.octet.trainer.step.GraphSource;
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
                processes, DEADLINE, world -> run(parts, TestGpus.ownDevice(), shared, world, RunOptions.defaults()));
        assertSame(whole, shared, STEPS);
        assertEquals(steps(whole), steps(shared));
    }

    /** What the first rank has written of steps that does not depend on the clock or on memory. */
    private static List<Map<String, JsonNode>> steps(Path run) throws IOException {
        List<Map<String, JsonNode>> steps = new ArrayList<>();
        for (String line : Files.readAllLines(run.resolve("metrics.jsonl"))) {
            JsonNode node = new ObjectMapper().readTree(line);
            Map<String, JsonNode> kept = new TreeMap<>();
            for (String key : List.of("step", "loss", "grad_norm", "loss_scale", "skipped", "lr")) {
                if (node.has(key)) {
                    kept.put(key, node.get(key));
                }
            }
            steps.add(kept);
        }
        return steps;
    }

    @Tag("kernels")
    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "2 | 4 | zero: 0 | mode: fp8, amax_history_len: 4 |",
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

    /** What the first rank's GPU takes for its queue by the end: pinned memory, and graphs. */
    private List<String> kept(int processes, TrainingParts parts, int steps) {
        List<String> kept = new ArrayList<>();
        Path run = folder.resolve("steps-" + steps);
        RankThreads.run(
                processes,
                DEADLINE,
                world -> run(
                        parts,
                        world.rank() == 0 ? TestGpus.remembering(kept) : TestGpus.hostDevice(),
                        run,
                        world,
                        RunOptions.defaults().withMaxSteps(steps)));
        return kept;
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "2 | 2 | 4 | zero: 0 | mode: fp8, amax_history_len: 4",
                "2 | 2 | 2 | zero: 1 | mode: fp32",
                "2 | 2 | 4 | zero: 2 | mode: bf16",
                "2 | 2 | 4 | zero: 3, bucket_size: 100 | mode: fp8, recipe: current",
                "4 | 2 | 4 | pipeline: 2, zero: 3 | mode: fp8, amax_history_len: 4",
                "2 | 1 | 2 | tensor: 2 | mode: fp8, amax_history_len: 4",
            })
    void more_steps_take_no_more_pinned_memory_and_graphs(
            int processes, int ranks, int accumulation, String distributed, String precision) {
        List<String> lines = new ArrayList<>(List.of(
                "steps: 16",
                "gradient_accumulation: " + accumulation,
                "distributed: {" + distributed + "}",
                "precision: {" + precision + (ranks == 1 ? "}" : ", ranks: " + ranks + ", gradient_reduction: f32}")));
        if (precision.contains("fp8")) { // of which some steps measure the fit
            lines.add("fp8_health: {every: 0}");
        }
        TrainingParts parts = SmallRun.parts(SmallRun.with(lines.toArray(String[]::new)));
        // two sequences take turns, and are graphs from their second time on
        assertEquals(kept(processes, parts, 8), kept(processes, parts, 16));
    }

    /** The first stage, which has no loss to wait for. */
    @Test
    void a_stage_evaluates_any_number_of_batches_in_the_pinned_memory_of_one() {
        TrainingParts parts =
                parts(1, 1, "pipeline: 2", "mode: fp32", "data: {train: made, eval: more}", "eval_every: 2");
        List<String> kept = kept(2, parts, STEPS);
        String ofSamples = "pinned " + 8 * SmallRun.IN * Float.BYTES;
        // of a program that trains and of one that evaluates
        assertEquals(2, kept.stream().filter(ofSamples::equals).count(), kept.toString());
    }

    /** A decoder whose heads, feed-forward layers and vocabulary ranks share. */
    private static void decoder(String model, Path run, Collectives world, String... lines) throws IOException {
        String yaml = "data: {train: made, shuffle: false}\nloss: {type: causal-lm}\nbatch_size: 2\nsteps: " + STEPS
                + "\nclip_grad_norm: 1.0\n" + String.join("\n", lines) + "\n";
        try (ModelSource source = ModelSource.open(Path.of(System.getProperty("octet.testdata"), "models/tiny-hf")
                        .resolve(model));
                Converter converter = Converter.of(source.model())) {
            TrainingParts parts = new TrainingParts(
                    SmallRun.config(yaml),
                    new GraphSource(
                            converter.canonical(), (graph, sizes) -> TrainingGraph.of(graph, sizes, new PassLog())),
                    Optional.empty(),
                    new RandomTokens(8, 8),
                    Optional.empty(),
                    Map.of("model", "abc"));
            run(parts, TestGpus.ownDevice(), run, world, RunOptions.defaults());
        }
    }

    private static List<Double> losses(Path run) throws IOException {
        return steps(run).stream()
                .filter(s -> s.containsKey("grad_norm"))
                .map(s -> requireNonNull(s.get("loss")).doubleValue())
                .toList();
    }

    @Tag("kernels")
    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "gpt2  | 2 | tensor: 2 | mode: fp32 | type: adamw, lr: 0.001 | 1e-6",
                "gpt2  | 2 | tensor: 2, sequence_parallel: true | mode: fp32 | type: adamw, lr: 0.001 | 1e-6",
                "llama | 2 | tensor: 2, sequence_parallel: true | mode: fp32 | type: adamw, lr: 0.001 | 1e-6",
                "llama | 4 | tensor: 2, sequence_parallel: true, zero: 3 | mode: fp32, ranks: 2, gradient_reduction:"
                        + " f32 | type: adamw, lr: 0.001 | 1e-6",
                "llama | 4 | tensor: 2, pipeline: 2 | mode: fp32 | type: adamw, lr: 0.001 | 1e-6",
                "llama | 2 | tensor: 2 | mode: bf16 | type: adamw, lr: 0.001 | 0.01",
                "llama | 2 | tensor: 2 | mode: fp8, amax_history_len: 4 | type: adamw, lr: 0.001 | 0.03",
                "llama | 2 | tensor: 2 | mode: fp32 | type: muon, lr: 0.001, ns_dtype: fp32 | 1e-6",
                "llama | 2 | tensor: 2 | mode: fp32 | type: adafactor, lr: 0.001 | 1e-6",
                "llama | 2 | tensor: 2 | mode: fp32 | type: lamb, lr: 0.001 | 1e-6",
                "llama | 2 | tensor: 2 | mode: fp32 | type: stableadamw, lr: 0.001 | 1e-6",
                "gpt2  | 2 | tensor: 2 | mode: fp32 | type: adamw, lr: 0.001, states: {engine: torchao} | 1e-3",
                "llama | 2 | tensor: 2 | mode: msamp | type: adamw, lr: 0.001 | 0.02",
                "llama | 2 | tensor: 2 | mode: qat, weights: {format: int8}, inputs: {format: int8} |"
                        + " type: adamw, lr: 0.001 | 1e-4",
            })
    void losses_of_GPUs_that_share_layers_are_those_of_one(
            String model, int ranks, String distributed, String precision, String optimizer, double tolerance)
            throws IOException {
        String lines = "gradient_accumulation: 2\noptimizer: {" + optimizer + "}\nprecision: {" + precision + "}";
        decoder(model, folder.resolve("one"), Collectives.alone(), lines);
        RankThreads.run(ranks, DEADLINE, world -> {
            decoder(model, folder.resolve("ranks"), world, lines, "distributed: {" + distributed + "}");
            return world.rank();
        });
        List<Double> expected = losses(folder.resolve("one"));
        List<Double> got = losses(folder.resolve("ranks"));
        assertEquals(STEPS, expected.size());
        for (int i = 0; i < STEPS; i++) {
            // products are added up in another order; summands in few bits are rounded before they are added
            assertEquals(expected.get(i), got.get(i), tolerance, "step " + (i + 1));
        }
    }
}
