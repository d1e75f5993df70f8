package dev.octet.pipeline;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.checkpoint.CheckpointFile;
import dev.octet.trainer.checkpoint.CheckpointFolder;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.RankThreads;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.hook.RunPlan;
import dev.octet.trainer.hook.StagePlan;
import dev.octet.trainer.step.StepResult;
import dev.octet.trainer.yaml.YamlFile;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Tiny models trained by the stages of a pipeline, beside one process that has the whole model. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class StagesOfModelsTest {
    private static final Path MODELS =
            Path.of(System.getProperty("octet.testdata")).resolve("models");
    private static final int STEPS = 20;
    private static final Duration DEADLINE = Duration.ofSeconds(60);

    @TempDir
    Path folder;

    private TrainingJob open(String model, String text, Collectives world) throws IOException {
        TrainingConfig config = TrainingConfig.of(YamlFile.parse(text, "c.yaml"), folder, world.size());
        return TrainingJob.open(
                MODELS.resolve(model), config, DeviceName.CPU, Job.defaults().withThreads(1), world);
    }

    private List<StepResult> steps(String model, String text, Collectives world) throws IOException {
        List<StepResult> results = new ArrayList<>();
        try (TrainingJob job = open(model, text, world)) {
            for (long step = 1; step <= STEPS; step++) {
                results.add(job.trainer().step(step));
            }
        }
        return results;
    }

    private String text(String model, int microBatches, String precision) throws IOException {
        return TinyData.lines(model, folder) + "batch_size: 2\nsteps: " + STEPS + "\ngradient_accumulation: "
                + microBatches + "\noptimizer: {type: adamw, lr: 1.0e-3}\nclip_grad_norm: 1.0\nprecision: {"
                + precision + "}\n";
    }

    /** The results of the ranks of a mesh, which are the same on all. */
    private List<StepResult> ranks(String model, String text, int ranks) {
        List<List<StepResult>> all = RankThreads.run(ranks, DEADLINE, world -> steps(model, text, world));
        all.forEach(rank -> assertEquals(all.getFirst(), rank, "what ranks know of a step is the same on all"));
        return all.getFirst();
    }

    /** Models whose parameters are read by one stage each: the numbers are those of one process, to the bit. */
    @ParameterizedTest
    @CsvSource({
        "tiny-onnx/llama_eager_dynamo18.onnx, 1, 2, 1, 4, fp32",
        "tiny-onnx/llama_eager_dynamo18.onnx, 1, 2, 2, 4, bf16",
        "tiny-onnx/llama_eager_dynamo18.onnx, 1, 4, 1, 2, fp8",
        "tiny-onnx/llama_eager_dynamo18.onnx, 2, 2, 1, 4, fp8",
        "tiny-onnx/vit_eager_dynamo18.onnx, 1, 3, 1, 3, fp32",
        "tiny-onnx/vit_eager_dynamo18.onnx, 1, 2, 2, 2, fp8",
        "tiny-onnx/vit_eager_dynamo18.onnx, 2, 2, 2, 4, bf16",
        "tiny-hf/llama, 1, 2, 2, 4, fp32",
        "tiny-hf/llama, 1, 3, 1, 2, 'qat, weights: {format: int4}, inputs: {format: int8}'"
    })
    void losses_and_norms_of_twenty_steps_are_those_of_one_process(
            String model, int data, int stages, int chunks, int microBatches, String mode) throws IOException {
        requireSame(model, data, stages, chunks, microBatches, mode);
    }

    @Tag("sweep")
    @ParameterizedTest
    @CsvSource({
        "tiny-onnx/llama_eager_script14.onnx, 1, 2, 1, 4, fp32",
        "tiny-onnx/llama_eager_dynamo23.onnx, 1, 3, 1, 4, fp32",
        "tiny-onnx/llama_eager_dynamo18.onnx, 1, 3, 1, 4, bf16",
        "tiny-onnx/llama_eager_dynamo18.onnx, 1, 4, 1, 4, fp32",
        "tiny-onnx/llama_eager_dynamo18.onnx, 1, 3, 2, 3, fp8",
        "tiny-onnx/llama_eager_dynamo18.onnx, 3, 2, 1, 6, bf16",
        "tiny-onnx/vit_eager_script17.onnx, 1, 2, 1, 4, fp32",
        "tiny-onnx/vit_eager_dynamo18.onnx, 1, 4, 1, 4, fp8",
        "tiny-onnx/vit_eager_dynamo18.onnx, 1, 2, 3, 4, fp32",
        "tiny-hf/bert-cls, 1, 2, 2, 4, fp32",
        "tiny-hf/llama3, 1, 2, 1, 4, bf16",
        "tiny-hf/mistral, 1, 2, 1, 4, fp32",
        "tiny-hf/vit, 1, 3, 1, 4, fp32"
    })
    void losses_and_norms_of_twenty_steps_are_those_of_one_process_for_every_exporter(
            String model, int data, int stages, int chunks, int microBatches, String mode) throws IOException {
        requireSame(model, data, stages, chunks, microBatches, mode);
    }

    private void requireSame(String model, int data, int stages, int chunks, int microBatches, String mode)
            throws IOException {
        String played = data == 1 ? "" : ", ranks: " + data + ", gradient_reduction: f32";
        List<StepResult> one = steps(model, text(model, microBatches, "mode: " + mode + played), Collectives.alone());
        String staged = text(model, microBatches, "mode: " + mode) + "distributed: {pipeline: " + stages + ", chunks: "
                + chunks + "}\n";
        List<StepResult> all = ranks(model, staged, data * stages);
        for (int i = 0; i < STEPS; i++) {
            assertEquals(one.get(i), all.get(i), "step " + (i + 1));
        }
    }

    /** Each rank of a stage has its part of gradients and weights; those that two stages read are whole. */
    @ParameterizedTest
    @CsvSource({
        "tiny-onnx/llama_eager_dynamo18.onnx, 1, 2, 2, bf16",
        "tiny-onnx/llama_eager_dynamo18.onnx, 1, 3, 1, fp8",
        "tiny-onnx/gpt2_eager_dynamo18.onnx, 1, 2, 1, fp32",
        "tiny-hf/llama, 2, 2, 1, fp32"
    })
    void what_ranks_of_a_stage_share_out_changes_no_bit(String model, int tensor, int stages, int chunks, String mode)
            throws IOException {
        String mesh = "data: 2, tensor: " + tensor + ", pipeline: " + stages + ", chunks: " + chunks;
        String text = text(model, 4, "mode: " + mode) + "distributed: {" + mesh;
        List<StepResult> whole = ranks(model, text + "}\n", 2 * tensor * stages);
        for (int zero = 2; zero <= 3; zero++) {
            assertEquals(whole, ranks(model, text + ", zero: " + zero + "}\n", 2 * tensor * stages), "zero " + zero);
        }
    }

    /** Two pipelines of two stages, whose layers two ranks share, beside the four ranks that have no stages. */
    @Tag("sweep")
    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "2 | mode: fp32 | type: muon, lr: 1.0e-3",
                "3 | mode: bf16 | type: muon, lr: 1.0e-3",
                "2 | mode: bf16 | type: lamb, lr: 1.0e-3",
                "3 | mode: fp32 | type: adafactor, lr: 1.0e-3",
                "3 | mode: fp16, loss_scale: {type: torch} | type: stableadamw, lr: 1.0e-3",
                "3 | mode: fp8, recipe: delayed | type: adamw, lr: 1.0e-3",
                "2 | mode: fp8, recipe: current | type: lion, lr: 1.0e-4",
                "3 | mode: fp8, recipe: mxfp8 | type: adamw, lr: 1.0e-3, states: {engine: te}",
                "3 | mode: bf16 | type: adamw, lr: 1.0e-3, states: {engine: te, store_param_remainders: true}",
                "2 | mode: bf16 | type: adamw, lr: 1.0e-3, states: {engine: bf16, masters: bf16}",
                "3 | mode: qat, weights: {format: int4, granularity: channel}, inputs: {format: int8} | type: adamw,"
                        + " lr: 1.0e-3",
                "1 | mode: msamp, gradient_reduction: legacy | type: adamw, lr: 1.0e-3",
                "1 | mode: bf16, gradient_reduction: min-scale | type: adamw, lr: 1.0e-3"
            })
    void stages_and_shares_do_not_change_a_bit_of_a_mesh_of_three_dimensions(int zero, String mode, String optimizer)
            throws IOException {
        String model = "tiny-hf/llama";
        String text =
                text(model, 4, mode).replace("optimizer: {type: adamw, lr: 1.0e-3}", "optimizer: {" + optimizer + "}")
                        + "distributed: {data: 2, tensor: 2";
        List<StepResult> flat = ranks(model, text + "}\n", 4);
        assertEquals(flat, ranks(model, text + ", pipeline: 2}\n", 8));
        assertEquals(flat, ranks(model, text + ", pipeline: 2, sequence_parallel: false, zero: " + zero + "}\n", 8));
    }

    @Test
    void a_rank_of_a_stage_keeps_less_the_more_is_shared_out() throws IOException {
        String model = "tiny-onnx/llama_eager_dynamo18.onnx";
        long before = Long.MAX_VALUE;
        for (int zero = 0; zero <= 3; zero++) {
            String text = text(model, 4, "mode: bf16, ranks: 2, gradient_reduction: f32")
                    + "distributed: {pipeline: 2, zero: " + zero + "}\n";
            try (TrainingJob job = open(model, text, Collectives.alone())) {
                long bytes = job.trainer().stagePlan().orElseThrow().stages().stream()
                        .mapToLong(StagePlan.Stage::lastingBytes)
                        .max()
                        .orElseThrow();
                assertTrue(bytes < before, "zero " + zero + ": " + bytes + " of " + before);
                before = bytes;
            }
        }
    }

    /** Models whose embedding is their head, and stages whose layers ranks share: sums are added in another order. */
    @ParameterizedTest
    @CsvSource({
        "tiny-onnx/gpt2_eager_dynamo18.onnx, 1, 2, 1, fp32, 1e-6",
        "tiny-onnx/gpt2_eager_dynamo18.onnx, 1, 4, 1, fp32, 1e-6",
        "tiny-onnx/gpt2_eager_dynamo18.onnx, 1, 2, 2, fp8, 1e-3",
        "tiny-hf/gpt2, 1, 3, 1, fp32, 1e-6",
        "tiny-onnx/bert_eager_script17.onnx, 1, 4, 1, fp32, 1e-6",
        "tiny-onnx/gpt2_eager_dynamo18.onnx, 2, 2, 1, fp32, 1e-6",
        "tiny-onnx/llama_eager_dynamo18.onnx, 2, 2, 2, fp32, 1e-6"
    })
    void losses_of_tied_models_and_of_shared_layers_are_near_those_of_one_process(
            String model, int tensor, int stages, int chunks, String mode, double tolerance) throws IOException {
        String text = text(model, 4, "mode: " + mode);
        List<StepResult> one = steps(model, text, Collectives.alone());
        String staged =
                text + "distributed: {tensor: " + tensor + ", pipeline: " + stages + ", chunks: " + chunks + "}\n";
        List<StepResult> all = ranks(model, staged, tensor * stages);
        for (int i = 0; i < STEPS; i++) {
            assertEquals(one.get(i).loss(), all.get(i).loss(), tolerance, "step " + (i + 1));
            assertEquals(
                    one.get(i).gradNorm(),
                    all.get(i).gradNorm(),
                    10 * tolerance * one.get(i).gradNorm(),
                    "step " + (i + 1));
        }
    }

    @ParameterizedTest
    @CsvSource({"tiny-hf/llama, fp32", "tiny-onnx/llama_eager_dynamo18.onnx, fp8"})
    void stages_do_not_change_a_bit_of_what_ranks_that_share_layers_compute(String model, String mode)
            throws IOException {
        String text = text(model, 4, "mode: " + mode);
        assertEquals(
                ranks(model, text + "distributed: {tensor: 2}\n", 2),
                ranks(model, text + "distributed: {tensor: 2, pipeline: 2}\n", 4));
    }

    @ParameterizedTest
    @CsvSource({"'layers: all', 4", "'budget: 20 kB', 4"})
    void layers_that_are_computed_again_do_not_change_a_bit(String again, int stages) throws IOException {
        String model = "tiny-onnx/llama_eager_dynamo18.onnx";
        String staged = text(model, 4, "mode: bf16") + "distributed: {pipeline: " + stages + "}\n";
        assertEquals(
                ranks(model, staged, stages),
                ranks(model, staged + "gradient_checkpointing: {" + again + "}\n", stages));
    }

    /** A block of attention or of an MLP begins with its norm, and between blocks the residual stream alone passes. */
    @Test
    void parts_of_a_model_begin_with_a_norm_of_the_residual_stream() throws IOException {
        String model = "tiny-onnx/llama_eager_dynamo18.onnx";
        try (TrainingJob job = open(
                model, text(model, 4, "mode: bf16") + "distributed: {pipeline: 2, chunks: 2}\n", Collectives.alone())) {
            List<String> first = job.trainer().stagePlan().orElseThrow().stages().stream()
                    .flatMap(s -> s.parts().stream())
                    .map(StagePlan.Part::first)
                    .toList();
            assertEquals(
                    List.of(
                            "node_embedding",
                            "/m/model/layers.1/input_layernorm",
                            "/m/model/layers.0/post_attention_layernorm",
                            "/m/model/layers.1/post_attention_layernorm"),
                    first);
        }
    }

    @Test
    void a_run_goes_on_with_other_chunks_and_with_more_stages_to_the_weights_of_one_process() throws IOException {
        String model = "tiny-onnx/llama_eager_dynamo18.onnx";
        Files.writeString(folder.resolve("c.yaml"), text(model, 6, "mode: bf16"));
        Train.Request one = request(model, "one");
        Train.run(one.withSettings(List.of("steps=3")), Job.defaults().withThreads(1));
        Train.Request staged = request(model, "staged");
        go(staged.withSteps(1), 2, "distributed.pipeline=2");
        go(staged.resuming().withSteps(1), 2, "distributed.pipeline=2", "distributed.chunks=2");
        go(staged.resuming(), 3, "distributed.pipeline=3", "distributed.reshape=true");
        assertEquals(weights("one"), weights("staged"));
    }

    private Train.Request request(String model, String run) {
        return Train.Request.of(MODELS.resolve(model), folder.resolve("c.yaml"), folder.resolve(run));
    }

    private static void go(Train.Request request, int ranks, String... settings) {
        List<String> all = new ArrayList<>(List.of(settings));
        all.add("steps=3");
        RankThreads.run(
                ranks,
                DEADLINE,
                world -> Train.run(
                        request.withSettings(all),
                        _ -> List.of(),
                        Job.defaults().withThreads(1),
                        world));
    }

    private Map<String, List<Float>> weights(String run) throws IOException {
        Map<String, List<Float>> all = new TreeMap<>();
        try (CheckpointFile file = new CheckpointFolder(folder.resolve(run)).open(3)) {
            file.state().parameters().forEach((name, t) -> {
                List<Float> elements = new ArrayList<>();
                for (float x : t.toFloats()) {
                    elements.add(x);
                }
                all.put(name, elements);
            });
        }
        return all;
    }

    /** A step of SGD at a rate of 1 moves each weight by its gradient. */
    @Test
    void the_gradient_of_a_tied_embedding_is_that_of_both_its_uses() throws IOException {
        String model = "tiny-onnx/gpt2_eager_dynamo18.onnx";
        String text = TinyData.lines(model, folder)
                + "batch_size: 2\nsteps: 1\ngradient_accumulation: 4\noptimizer: {type: sgd, lr: 1.0}\n";
        Map<String, float[]> one = moved(model, text, Collectives.alone());
        List<Map<String, float[]>> stages =
                RankThreads.run(3, DEADLINE, world -> moved(model, text + "distributed: {pipeline: 3}\n", world));
        Map<String, Integer> seen = new TreeMap<>();
        for (Map<String, float[]> stage : stages) {
            stage.forEach((name, weights) -> {
                seen.merge(name, 1, Integer::sum);
                float[] expected = Objects.requireNonNull(one.get(name), name);
                for (int i = 0; i < weights.length; i++) {
                    assertEquals(expected[i], weights[i], 1e-5, name + " " + i);
                }
            });
        }
        assertEquals(one.keySet(), seen.keySet());
        List<String> twice = seen.entrySet().stream()
                .filter(e -> e.getValue() > 1)
                .map(Map.Entry::getKey)
                .toList();
        assertEquals(List.of("m.lm_head.weight"), twice, "the embedding is on the first stage and on the last");
    }

    private Map<String, float[]> moved(String model, String text, Collectives world) throws IOException {
        Map<String, float[]> weights = new TreeMap<>();
        try (TrainingJob job = open(model, text, world);
                Arena arena = Arena.ofConfined()) {
            job.trainer().step(1);
            for (Map.Entry<String, Tensor> e : job.trainer().parameters(arena).entrySet()) {
                weights.put(e.getKey(), e.getValue().toFloats());
            }
        }
        return weights;
    }

    @Test
    void the_page_has_what_is_planned_for_the_stages_of_tiny_gpt2() throws IOException {
        String model = "tiny-onnx/gpt2_eager_dynamo18.onnx";
        String text =
                text(model, 8, "mode: bf16").replace("sequence: 6", "sequence: 8") + "distributed: {pipeline: 4}\n";
        StagePlan planned;
        try (TrainingJob job = open(model, text, Collectives.alone())) {
            planned = job.trainer().stagePlan().orElseThrow();
        }
        List<String> rows = Files.readAllLines(
                Path.of(System.getProperty("octet.root", "..")).resolve("docs/distributed.md"));
        for (int s = 0; s < planned.stages().size(); s++) {
            StagePlan.Stage stage = planned.stages().get(s);
            String row = String.format(
                    Locale.ROOT,
                    "| %d | %.1f %% | %,d | %d | %.1f kB | %.1f kB |",
                    s + 1,
                    100 * stage.share(),
                    stage.weights(),
                    stage.inFlight(),
                    stage.bytes() / 1e3,
                    stage.lastingBytes() / 1e3);
            assertTrue(rows.contains(row), row);
        }
    }

    /** Bytes between steps and within one, of stages that have taken a step, and what was planned in one process. */
    @ParameterizedTest
    @CsvSource({
        "tiny-onnx/gpt2_eager_dynamo18.onnx, 1, 3, 1, 4, 'pipeline: 3', ''",
        "tiny-onnx/llama_eager_dynamo18.onnx, 2, 2, 2, 4, 'pipeline: 2, chunks: 2, zero: 1',"
                + " 'gradient_checkpointing: {layers: all}'"
    })
    void the_memory_planned_for_each_stage_is_that_which_it_has(
            String model, int data, int stages, int chunks, int microBatches, String distributed, String line)
            throws IOException {
        String ranks = data == 1 ? "" : ", ranks: " + data + ", gradient_reduction: f32";
        String text =
                text(model, microBatches, "mode: bf16" + ranks) + "distributed: {" + distributed + "}\n" + line + "\n";
        StagePlan planned;
        try (TrainingJob job = open(model, text, Collectives.alone())) {
            planned = job.trainer().stagePlan().orElseThrow();
        }
        List<RunPlan> all = RankThreads.run(data * stages, DEADLINE, world -> {
            try (TrainingJob job = open(model, text, world)) {
                job.trainer().step(1);
                return job.trainer().plan();
            }
        });
        assertEquals(stages, planned.stages().size());
        assertEquals(chunks, planned.chunks());
        for (int s = 0; s < stages; s++) {
            StagePlan.Stage stage = planned.stages().get(s);
            List<RunPlan> own = all.subList(s * data, (s + 1) * data);
            assertEquals(
                    own.stream().mapToLong(RunPlan::lastingBytes).max().orElseThrow(),
                    stage.lastingBytes(),
                    "stage " + s);
            assertTrue(own.stream().anyMatch(r -> r.temporaryBytes() == stage.temporaryBytes()), "stage " + s);
        }
        assertEquals(
                1, planned.stages().stream().mapToDouble(StagePlan.Stage::share).sum(), 1e-9);
    }
}
