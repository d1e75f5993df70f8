package dev.octet.pipeline;

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
import dev.octet.quant.recipe.Recipes;
import dev.octet.trainer.RunOptions;
import dev.octet.trainer.checkpoint.CheckpointFile;
import dev.octet.trainer.checkpoint.CheckpointFolder;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.RankThreads;
import dev.octet.trainer.config.TrainingConfig;
import dev.octet.trainer.hook.RunEnd;
import dev.octet.trainer.hook.RunPlan;
import dev.octet.trainer.hook.TrainingHook;
import dev.octet.trainer.step.StepResult;
import dev.octet.trainer.yaml.YamlFile;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
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

/** Tiny GPT-2, Llama and ViT whose layers ranks share, beside one process that has all. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TensorParallelTest {
    private static final Path MODELS =
            Path.of(System.getProperty("octet.testdata")).resolve("models");
    private static final int STEPS = 20;
    private static final Duration DEADLINE = Duration.ofSeconds(60);

    @TempDir
    Path folder;

    private String data(String model) throws IOException {
        return TinyData.lines(model, folder);
    }

    private String text(String model, String... lines) throws IOException {
        return data(model) + "batch_size: 2\nsteps: " + STEPS + "\noptimizer: {type: adamw, lr: 1.0e-3}\n"
                + "clip_grad_norm: 1.0\n" + String.join("\n", lines) + "\n";
    }

    private TrainingConfig config(String text, int ranks) {
        return TrainingConfig.of(YamlFile.parse(text, "c.yaml"), folder, ranks);
    }

    private TrainingJob open(String model, String text, Collectives world) throws IOException {
        return TrainingJob.open(
                MODELS.resolve(model),
                config(text, world.size()),
                DeviceName.CPU,
                Job.defaults().withThreads(1),
                world);
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

    private List<List<StepResult>> ranks(int count, String model, String text) {
        return RankThreads.run(count, DEADLINE, world -> steps(model, text, world));
    }

    @ParameterizedTest
    @CsvSource({
        "tiny-onnx/gpt2_eager_dynamo18.onnx, 2",
        "tiny-onnx/gpt2_eager_dynamo18.onnx, 4",
        "tiny-onnx/llama_eager_dynamo18.onnx, 2",
        "tiny-onnx/vit_eager_dynamo18.onnx, 4",
        "tiny-hf/gpt2, 2",
        "tiny-hf/llama, 2",
        "tiny-hf/qwen3, 2",
        "tiny-hf/vit, 2",
    })
    void losses_of_twenty_steps_in_F32_are_those_of_one_process(String model, int tensor) throws IOException {
        requireSameLosses(model, tensor, "");
    }

    @ParameterizedTest
    @CsvSource({
        "tiny-onnx/gpt2_eager_dynamo18.onnx, 2",
        "tiny-onnx/llama_eager_dynamo18.onnx, 2",
        "tiny-hf/gpt2, 4",
        "tiny-hf/qwen3, 2",
        "tiny-hf/vit, 2",
    })
    void sequence_parallel_ranks_have_the_losses_of_one_process(String model, int tensor) throws IOException {
        requireSameLosses(model, tensor, ", sequence_parallel: true");
    }

    private void requireSameLosses(String model, int tensor, String more) throws IOException {
        List<StepResult> one = steps(model, text(model), Collectives.alone());
        List<List<StepResult>> all = ranks(tensor, model, text(model, "distributed: {tensor: " + tensor + more + "}"));
        for (List<StepResult> rank : all) {
            assertEquals(all.getFirst(), rank, "what ranks know of a step is the same on all");
        }
        for (int i = 0; i < STEPS; i++) {
            String where = "step " + (i + 1);
            // products are added up in another order
            assertEquals(one.get(i).loss(), all.getFirst().get(i).loss(), 1e-6, where);
            assertEquals(
                    one.get(i).gradNorm(),
                    all.getFirst().get(i).gradNorm(),
                    1e-5 * one.get(i).gradNorm(),
                    where);
        }
    }

    /** Summands of BF16 are rounded before they are added; FP8 has amaxes of other roundings besides, and is itself as far from F32. */
    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "tiny-onnx/gpt2_eager_dynamo18.onnx | 2 | mode: bf16                                  | 0.01",
                "tiny-hf/llama                      | 2 | mode: bf16                                  | 0.01",
                "tiny-onnx/vit_eager_dynamo18.onnx  | 2 | mode: fp16, loss_scale: {type: torch}       | 0.01",
                "tiny-onnx/gpt2_eager_dynamo18.onnx | 2 | mode: fp8, recipe: delayed                  | 0.03",
                "tiny-hf/llama                      | 2 | mode: fp8, recipe: current                  | 0.03",
                "tiny-hf/gpt2                       | 2 | mode: fp8, recipe: mxfp8                    | 0.03",
            })
    void losses_of_narrow_types_are_near_those_of_one_process(
            String model, int tensor, String precision, double tolerance) throws IOException {
        String mode = "precision: {" + precision + "}";
        List<StepResult> one = steps(model, text(model, mode), Collectives.alone());
        List<List<StepResult>> all = ranks(tensor, model, text(model, mode, "distributed: {tensor: " + tensor + "}"));
        double worst = 0;
        for (int i = 0; i < STEPS; i++) {
            assertEquals(all.getFirst().get(i), all.getLast().get(i), "what ranks know of a step is the same on all");
            worst = Math.max(
                    worst, Math.abs(one.get(i).loss() - all.getFirst().get(i).loss()));
        }
        assertEquals(0, worst, tolerance);
    }

    /**
     * Muon multiplies whole matrices, LAMB, StableAdamW and Adafactor look at means and norms of whole tensors. GPT-2's bias of keys has a gradient of rounding errors alone, which
     * Adafactor and StableAdamW make as large as any.
     */
    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "tiny-hf/gpt2 | type: muon, lr: 1.0e-3, ns_dtype: fp32",
                "tiny-hf/llama | type: muon, lr: 1.0e-3, ns_dtype: fp32",
                "tiny-hf/llama | type: adafactor, lr: 1.0e-3",
                "tiny-hf/llama | type: adafactor, lr: 1.0e-2, formula: torch",
                "tiny-hf/llama | type: adafactor, lr: 1.0e-3, beta1: 0.9, scale_parameter: true",
                "tiny-onnx/gpt2_eager_dynamo18.onnx | type: lamb, lr: 1.0e-2",
                "tiny-hf/llama | type: lamb, lr: 1.0e-3, formula: deepspeed",
                "tiny-onnx/llama_eager_dynamo18.onnx | type: stableadamw, lr: 1.0e-3"
            })
    void optimizers_that_look_at_whole_tensors_take_the_steps_of_one_process(String model, String optimizer)
            throws IOException {
        String usual = "optimizer: {type: adamw, lr: 1.0e-3}";
        String lines = "gradient_accumulation: 2";
        List<StepResult> one =
                steps(model, text(model, lines).replace(usual, "optimizer: {" + optimizer + "}"), Collectives.alone());
        for (String mesh : List.of("2 tensor: 2", "4 tensor: 2, sequence_parallel: true, zero: 2")) {
            String text = text(model, lines, "distributed: {" + mesh.substring(2) + "}")
                    .replace(usual, "optimizer: {" + optimizer + "}");
            List<List<StepResult>> all = ranks(mesh.charAt(0) - '0', model, text);
            for (int i = 0; i < STEPS; i++) {
                String where = mesh + ", step " + (i + 1);
                assertEquals(all.getFirst().get(i), all.getLast().get(i), where);
                assertEquals(one.get(i).loss(), all.getFirst().get(i).loss(), 1e-6, where);
            }
        }
    }

    /** Fake quantisation rounds: what is next to the middle between two codes may get another one, with sums added in another order. */
    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "tiny-hf/gpt2  | weights: {format: int4}, inputs: {format: int8} | 1e-2",
                "tiny-hf/llama | weights: {format: int8, granularity: channel}, inputs: {format: int8} | 1e-4",
                "tiny-hf/llama | weights: {format: int4, granularity: group, group_size: 8} | 1e-4",
                "tiny-hf/gpt2  | method: lsq+, weights: {format: int4}, inputs: {format: uint4} | 1e-2",
                "tiny-hf/llama | weights: {format: int4, granularity: group, group_size: 4, method: dynamic}, inputs:"
                        + " {format: int8, granularity: token, method: dynamic} | 1e-2",
                "tiny-hf/llama | weights: {format: nvfp4} | 1e-4"
            })
    void learned_scales_are_those_of_whole_layers(String model, String quantizers, double tolerance)
            throws IOException {
        String mode = "precision: {mode: qat, " + quantizers + "}";
        List<StepResult> one = steps(model, text(model, mode), Collectives.alone());
        for (String more : List.of("", ", sequence_parallel: true")) {
            List<List<StepResult>> all = ranks(2, model, text(model, mode, "distributed: {tensor: 2" + more + "}"));
            for (int i = 0; i < STEPS; i++) {
                String where = "step " + (i + 1) + more;
                assertEquals(all.getFirst().get(i), all.getLast().get(i), where);
                assertEquals(one.get(i).loss(), all.getFirst().get(i).loss(), i < 2 ? 1e-6 : tolerance, where);
            }
        }
    }

    /** One scale belongs to all parts of a weight: codes are those of the whole one, but for sums that end up on the other side of a rounding. */
    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "tiny-hf/llama | mode: bf16 | , states: {engine: te, master_weight_dtype: fp16, exp_avg_dtype: fp8,"
                        + " exp_avg_sq_dtype: fp16} | 1e-2",
                "tiny-hf/gpt2  | mode: fp32 | , states: {engine: te, store_param_remainders: true} | 1e-6",
                "tiny-hf/gpt2  | mode: bf16 | , states: {engine: bf16, masters: bf16} | 1e-2",
                "tiny-onnx/gpt2_eager_dynamo18.onnx | mode: fp32 | , states: {engine: torchao, format: int8} | 1e-3",
                "tiny-onnx/gpt2_eager_dynamo18.onnx | mode: bf16 | , states: {engine: torchao, format: fp8} | 1e-2",
                "tiny-hf/llama | mode: fp32 | , states: {engine: msamp} | 1e-2",
                "tiny-hf/llama | mode: msamp | | 2e-2",
                "tiny-hf/gpt2  | mode: msamp, opt_level: O3 | | 2e-2"
            })
    void states_in_few_bits_have_the_scales_of_whole_tensors(
            String model, String mode, @Nullable String states, double tolerance) throws IOException {
        String usual = "lr: 1.0e-3}";
        String lines = "gradient_accumulation: 2\nprecision: {" + mode + "}";
        String kept = "lr: 1.0e-3" + (states == null ? "" : states) + "}";
        String text = text(model, lines).replace(usual, kept);
        String shared = text(model, lines, "distributed: {tensor: 2, sequence_parallel: true}")
                .replace(usual, kept);
        run(model, text, Collectives.alone(), "one", RunOptions.defaults());
        runRanks(2, model, shared, "two", RunOptions.defaults().withMaxSteps(9));
        runRanks(2, model, shared, "two", RunOptions.defaults().resuming());
        runRanks(2, model, shared, "whole", RunOptions.defaults());
        files("whole", STEPS)
                .forEach((name, bytes) ->
                        assertArrayEquals(bytes, read("two", STEPS).get(name), name));
        List<Double> expected = losses("one");
        List<Double> got = losses("two");
        for (int i = 0; i < STEPS; i++) {
            assertEquals(expected.get(i), got.get(i), tolerance, "step " + (i + 1));
        }
        try (CheckpointFile one = checkpoint("one", STEPS);
                CheckpointFile two = checkpoint("two", STEPS)) {
            for (Map.Entry<String, Tensor> state : one.state().state().entrySet()) {
                Tensor other = requireNonNull(two.state().state().get(state.getKey()), state.getKey());
                assertEquals(state.getValue().spec(), other.spec());
            }
            assertEquals(one.state().state().keySet(), two.state().state().keySet());
        }
        String back = text(model, lines, "distributed: {reshape: true}").replace(usual, kept);
        runRanks(2, model, shared, "moved", RunOptions.defaults().withMaxSteps(9));
        run(model, back, Collectives.alone(), "moved", RunOptions.defaults().resuming());
        List<Double> moved = losses("moved");
        for (int i = 0; i < STEPS; i++) {
            assertEquals(expected.get(i), moved.get(i), tolerance, "step " + (i + 1));
        }
    }

    /** The scale of the codes that travel is that of the whole gradient. */
    @ParameterizedTest
    @ValueSource(strings = {"mode: fp32, gradient_reduction: min-scale", "mode: bf16, gradient_reduction: legacy"})
    void codes_of_gradients_have_the_scales_of_whole_gradients(String precision) throws IOException {
        String model = "tiny-hf/llama";
        String lines = "gradient_accumulation: 4\nprecision: {" + precision;
        List<StepResult> one = steps(model, text(model, lines + ", ranks: 2}"), Collectives.alone());
        List<List<StepResult>> all = ranks(4, model, text(model, lines + "}", "distributed: {tensor: 2}"));
        for (int i = 0; i < STEPS; i++) {
            String where = "step " + (i + 1);
            StepResult first = all.getFirst().get(i);
            assertEquals(first, all.getLast().get(i), where);
            assertEquals(one.get(i).loss(), first.loss(), 2e-3, where);
            assertEquals(
                    one.get(i).ranks().orElseThrow().elements(),
                    first.ranks().orElseThrow().elements(),
                    where);
            assertEquals(
                    one.get(i).ranks().orElseThrow().smallestPreScale(),
                    first.ranks().orElseThrow().smallestPreScale(),
                    where);
        }
    }

    @ParameterizedTest
    @CsvSource({"gpt2, fp32", "llama, bf16"})
    void what_data_parallel_ranks_share_out_changes_no_bit(String name, String mode) throws IOException {
        String model = "tiny-hf/" + name;
        String lines = "gradient_accumulation: 2\nprecision: {mode: " + mode + "}\n";
        List<StepResult> one = steps(model, text(model, lines), Collectives.alone());
        List<StepResult> whole =
                ranks(4, model, text(model, lines, "distributed: {tensor: 2}")).getFirst();
        for (int i = 0; i < STEPS; i++) {
            assertEquals(one.get(i).loss(), whole.get(i).loss(), mode.equals("fp32") ? 1e-6 : 0.01, "step " + (i + 1));
        }
        for (int zero = 1; zero <= 3; zero++) {
            String shares = "distributed: {tensor: 2, zero: " + zero + "}";
            for (List<StepResult> rank : ranks(4, model, text(model, lines, shares))) {
                assertEquals(whole, rank, shares);
            }
        }
    }

    private RunEnd run(String model, String text, Collectives world, String name, RunOptions options)
            throws IOException {
        try (TrainingJob job = open(model, text, world)) {
            return job.trainer().run(folder.resolve(name), options);
        }
    }

    private void runRanks(int count, String model, String text, String name, RunOptions options) {
        RankThreads.run(count, DEADLINE, world -> run(model, text, world, name, options));
    }

    private CheckpointFile checkpoint(String name, long step) throws IOException {
        return new CheckpointFolder(folder.resolve(name)).open(step);
    }

    private static double distance(Tensor a, Tensor b) {
        float[] x = a.toFloats();
        float[] y = b.toFloats();
        double most = 0;
        for (int i = 0; i < x.length; i++) {
            most = Math.max(most, Math.abs(x[i] - y[i]));
        }
        return most;
    }

    /** After one step of plain SGD with a rate of 1 weights differ from those of the model by their gradients. */
    @ParameterizedTest
    @CsvSource({
        "tiny-onnx/gpt2_eager_dynamo18.onnx, 2, false",
        "tiny-onnx/gpt2_eager_script14.onnx, 4, true",
        "tiny-onnx/llama_eager_script17.onnx, 2, true",
        "tiny-onnx/bert_eager_dynamo18.onnx, 2, false",
        "tiny-onnx/vit_eager_script17.onnx, 2, true",
        "tiny-hf/qwen3, 2, true",
        "tiny-hf/gemma2, 2, false",
        "tiny-hf/bert-cls, 2, true",
    })
    void gradients_of_all_weights_are_those_of_one_process(String model, int tensor, boolean sequence)
            throws IOException {
        String text = data(model) + "batch_size: 2\nsteps: 1\noptimizer: {type: sgd, lr: 1}\n";
        run(model, text, Collectives.alone(), "one", RunOptions.defaults());
        String mesh = "distributed: {tensor: " + tensor + ", sequence_parallel: " + sequence + "}\n";
        runRanks(tensor, model, text + mesh, "ranks", RunOptions.defaults());
        try (CheckpointFile one = checkpoint("one", 1);
                CheckpointFile ranks = checkpoint("ranks", 1)) {
            assertEquals(
                    one.state().parameters().keySet(),
                    ranks.state().parameters().keySet());
            for (Map.Entry<String, Tensor> weight : one.state().parameters().entrySet()) {
                Tensor other = requireNonNull(ranks.state().parameters().get(weight.getKey()));
                assertEquals(weight.getValue().spec(), other.spec());
                assertEquals(0, distance(weight.getValue(), other), 1e-5, weight.getKey());
            }
        }
    }

    @Test
    void a_resumed_run_has_the_bytes_of_one_that_was_not_interrupted() throws IOException {
        String model = "tiny-hf/llama";
        String text = text(
                model,
                "gradient_accumulation: 2",
                "precision: {mode: fp8, recipe: delayed}",
                "distributed: {tensor: 2, sequence_parallel: true, zero: 2}");
        runRanks(4, model, text, "whole", RunOptions.defaults());
        runRanks(4, model, text, "halves", RunOptions.defaults().withMaxSteps(9));
        runRanks(4, model, text, "halves", RunOptions.defaults().resuming());
        assertEquals(files("whole", STEPS).keySet(), files("halves", STEPS).keySet());
        files("whole", STEPS)
                .forEach((name, bytes) ->
                        assertArrayEquals(bytes, read("halves", STEPS).get(name), name));
        assertTrue(files("whole", STEPS).containsKey("parameters-00004-of-00004.safetensors"));
    }

    private Map<String, byte[]> read(String run, long step) {
        try {
            return files(run, step);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private Map<String, byte[]> files(String run, long step) throws IOException {
        Map<String, byte[]> files = new TreeMap<>();
        try (Stream<Path> all = Files.list(new CheckpointFolder(folder.resolve(run)).path(step))) {
            for (Path file : all.toList()) {
                files.put(file.getFileName().toString(), Files.readAllBytes(file));
            }
        }
        return files;
    }

    @ParameterizedTest
    @CsvSource({"gpt2, fp32", "gpt2, 'fp8, recipe: delayed'"})
    void a_run_goes_on_with_another_mesh_where_that_is_accepted(String name, String mode) throws IOException {
        String model = "tiny-hf/" + name;
        String lines = "gradient_accumulation: 2\naveraging: {ema: {decay: 0.9}}\nprecision: {mode: " + mode + "}";
        String text = text(model, lines);
        run(model, text, Collectives.alone(), "one", RunOptions.defaults());
        String two = text(model, lines, "distributed: {tensor: 2}");
        runRanks(2, model, two, "moved", RunOptions.defaults().withMaxSteps(4));
        InvalidOptionException refused = assertThrows(
                InvalidOptionException.class,
                () -> run(
                        model,
                        text,
                        Collectives.alone(),
                        "moved",
                        RunOptions.defaults().resuming()));
        assertTrue(refused.what().contains("were shared out to 2 ranks and are to 1"), refused.what());
        assertTrue(refused.fix().contains("distributed.reshape=true"), refused.fix());
        String four = text(model, lines, "distributed: {tensor: 4, reshape: true}");
        runRanks(4, model, four, "moved", RunOptions.defaults().withMaxSteps(4).resuming());
        String both = text(model, lines, "distributed: {tensor: 2, zero: 3, reshape: true}");
        runRanks(4, model, both, "moved", RunOptions.defaults().withMaxSteps(4).resuming());
        String one = text(model, lines, "distributed: {reshape: true}");
        run(model, one, Collectives.alone(), "moved", RunOptions.defaults().resuming());
        double tolerance = mode.equals("fp32") ? 1e-6 : 0.03;
        List<Double> expected = losses("one");
        List<Double> got = losses("moved");
        assertEquals(STEPS, got.size());
        for (int i = 0; i < STEPS; i++) {
            assertEquals(expected.get(i), got.get(i), tolerance, "step " + (i + 1));
        }
        try (CheckpointFile a = checkpoint("one", STEPS);
                CheckpointFile b = checkpoint("moved", STEPS)) {
            assertEquals(a.state().state().keySet(), b.state().state().keySet());
            a.state()
                    .state()
                    .forEach((state, tensor) -> assertEquals(
                            tensor.spec(),
                            requireNonNull(b.state().state().get(state)).spec()));
        }
    }

    private List<Double> losses(String run) throws IOException {
        List<Double> losses = new ArrayList<>();
        for (String line : Files.readAllLines(folder.resolve(run).resolve("metrics.jsonl"))) {
            JsonNode node = new ObjectMapper().readTree(line);
            if (node.has("grad_norm")) {
                losses.add(node.get("loss").asDouble());
            }
        }
        return losses;
    }

    /** Weights do not change before the first step: each rank's amax is that of its part, the scale that of the whole. */
    @Test
    void delayed_scales_of_weights_that_are_cut_are_those_of_whole_weights() throws IOException {
        String model = "tiny-hf/llama";
        String lines = "precision: {mode: fp8, recipe: delayed}\noptimizer: {type: sgd, lr: 1.0e-9}";
        String text = data(model) + "batch_size: 2\nsteps: 2\n" + lines + "\n";
        run(model, text, Collectives.alone(), "one", RunOptions.defaults());
        runRanks(2, model, text + "distributed: {tensor: 2}\n", "two", RunOptions.defaults());
        try (CheckpointFile one = checkpoint("one", 2);
                CheckpointFile two = checkpoint("two", 2)) {
            int weights = 0;
            for (Map.Entry<String, Tensor> state : one.state().state().entrySet()) {
                if (state.getKey().startsWith("fp8.") && state.getKey().contains("weight")) {
                    Tensor other = requireNonNull(two.state().state().get(state.getKey()), state.getKey());
                    assertArrayEquals(state.getValue().toFloats(), other.toFloats(), state.getKey());
                    weights++;
                }
            }
            assertTrue(weights >= 14, weights + " of two layers with seven Linears each");
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "gpt2  | 3 | 4 heads of '/transformer/h.0/attn/Attention' cannot be shared out evenly to 3 ranks",
                "llama | 4 | 4 heads and 2 of keys and values of '/model/layers.0/self_attn/Attention' cannot be"
                        + " shared out evenly to 4 ranks"
            })
    void heads_that_ranks_do_not_divide_are_refused(String model, int tensor, String what) throws IOException {
        String text = text("tiny-hf/" + model, "distributed: {tensor: " + tensor + "}");
        UnavailableException failed = assertThrows(
                UnavailableException.class,
                () -> RankThreads.run(tensor, DEADLINE, world -> {
                    try (TrainingJob job = open("tiny-hf/" + model, text, world)) {
                        return job.trainer().plan();
                    }
                }));
        InvalidOptionException why = assertInstanceOf(InvalidOptionException.class, failed.getCause());
        assertEquals(what, why.what());
        assertTrue(why.fix().startsWith("choose one of 2"), why.fix());
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "optimizer: {type: adamw, lr: 0.01, states: {engine: torchao, format: int4}} | two of its codes share a"
                        + " byte, and ranks may have one of them each"
            })
    void what_ranks_that_share_layers_cannot_do_is_refused(String line, String what) throws IOException {
        String rate = line.startsWith("optimizer") ? "" : "optimizer: {type: sgd, lr: 0.1}\n";
        String text = data("gpt2") + "batch_size: 2\nsteps: 2\n" + rate + line.replace(" ; ", "\n")
                + "\ndistributed: {tensor: 2}\n";
        InvalidOptionException refused =
                assertThrows(InvalidOptionException.class, () -> open("tiny-hf/gpt2", text, Collectives.alone()));
        assertEquals(what, refused.what());
        assertTrue(refused.where().contains("distributed.tensor: 2"), refused.where());
    }

    @Test
    void one_process_plans_what_the_first_of_several_has_and_runs_nothing() throws IOException {
        String model = "tiny-onnx/gpt2_eager_dynamo18.onnx";
        String text = text(model, "distributed: {tensor: 2}");
        RunPlan whole;
        try (TrainingJob job = open(model, text(model), Collectives.alone())) {
            whole = job.trainer().plan();
        }
        List<RunPlan> ranks = RankThreads.run(2, DEADLINE, world -> {
            try (TrainingJob job = open(model, text, world)) {
                return job.trainer().plan();
            }
        });
        try (TrainingJob job = open(model, text, Collectives.alone())) {
            RunPlan planned = job.trainer().plan();
            assertEquals(ranks.getFirst().lastingBytes(), planned.lastingBytes());
            assertEquals(ranks.getFirst().temporaryBytes(), planned.temporaryBytes());
            assertEquals(whole.trainedElements(), planned.trainedElements());
            assertTrue(planned.lastingBytes() < 0.6 * whole.lastingBytes(), planned + ", " + whole);
            assertTrue(
                    planned.notes().stream()
                            .anyMatch(n -> n.startsWith("tensor: each of 2 ranks has a part of 9 of 9 Linears")),
                    planned.notes().toString());
            UnavailableException alone =
                    assertThrows(UnavailableException.class, () -> job.trainer().step(1));
            assertEquals("one process is there of the 2 that share the model", alone.what());
            assertThrows(
                    UnavailableException.class, () -> job.trainer().run(folder.resolve("run"), RunOptions.defaults()));
            assertFalse(Files.exists(folder.resolve("run")));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"", ", sequence_parallel: true"})
    void activations_that_are_computed_again_change_no_bit(String more) throws IOException {
        String model = "tiny-hf/llama";
        String mesh = "distributed: {tensor: 2" + more + "}\nprecision: {mode: fp8, recipe: delayed}";
        List<StepResult> kept = ranks(2, model, text(model, mesh)).getFirst();
        List<StepResult> again = ranks(2, model, text(model, mesh, "gradient_checkpointing: {layers: all}"))
                .getFirst();
        assertEquals(kept, again);
    }

    @Test
    void ranks_that_have_different_amounts_compute_the_same_layers_again() throws IOException {
        String model = "tiny-onnx/gpt2_eager_dynamo18.onnx";
        String mesh = "distributed: {tensor: 2}";
        List<List<StepResult>> kept = ranks(2, model, text(model, mesh));
        long plain;
        try (TrainingJob job = open(model, text(model, mesh), Collectives.alone())) {
            plain = job.trainer().plan().temporaryBytes();
        }
        String budget = "gradient_checkpointing: {budget: " + plain * 8 / 10 + "}";
        List<RunPlan> plans = RankThreads.run(2, DEADLINE, world -> {
            try (TrainingJob job = open(model, text(model, mesh, budget), world)) {
                return job.trainer().plan();
            }
        });
        assertTrue(plans.stream().allMatch(p -> p.temporaryBytes() < plain), plans.toString());
        assertEquals(kept, ranks(2, model, text(model, mesh, budget)));
    }

    @Test
    void evaluations_and_losses_that_need_all_scores_are_those_of_one_process() throws IOException {
        String model = "tiny-hf/gpt2";
        String teacher = MODELS.resolve("tiny-onnx/gpt2_eager_dynamo18.onnx").toString();
        for (String loss : List.of(
                "loss: {type: causal-lm, label_smoothing: 0.1}",
                "loss: {type: causal-lm, distillation: {teacher: " + teacher + ", weight: 0.5}}")) {
            String text = text(model)
                    .replace("loss: {type: causal-lm}", loss)
                    .replace("data: {", "data: {eval: tokens.bin, ");
            Evaluated one = evaluated(model, text, Collectives.alone());
            List<Evaluated> ranks = RankThreads.run(
                    4,
                    DEADLINE,
                    world -> evaluated(model, text + "gradient_accumulation: 2\ndistributed: {tensor: 2}\n", world));
            Evaluated two = evaluated(model, text + "gradient_accumulation: 2\n", Collectives.alone());
            assertEquals(one.before, ranks.getFirst().before, 1e-6, loss);
            assertEquals(two.after, ranks.getFirst().after, 1e-6, loss);
            assertEquals(ranks.getFirst(), ranks.getLast(), loss);
        }
    }

    private record Evaluated(double before, double after) {}

    private Evaluated evaluated(String model, String text, Collectives world) throws IOException {
        try (TrainingJob job = open(model, text, world)) {
            double before = job.trainer().evaluate().total();
            job.trainer().step(1);
            job.trainer().step(2);
            return new Evaluated(before, job.trainer().evaluate().total());
        }
    }

    /** A loss that is not finite on one part of a layer is found by all ranks at the same step. */
    @Test
    void a_step_that_overflows_is_left_out_by_all_ranks() throws IOException {
        String model = "tiny-hf/gpt2";
        String text = text(
                model,
                "precision: {mode: fp16, loss_scale: {type: torch, init_scale: 1.0e9, growth_interval: 100}}",
                "distributed: {tensor: 2}");
        List<List<StepResult>> all = ranks(2, model, text);
        assertEquals(all.getFirst(), all.getLast());
        assertTrue(all.getFirst().getFirst().skipped(), "a scale of 1e9 overflows");
        assertFalse(all.getFirst().getLast().skipped());
    }

    @Tag("sweep")
    @ParameterizedTest
    @ValueSource(
            strings = {
                "mode: fp32",
                "mode: bf16",
                "mode: fp16, loss_scale: {type: torch}",
                "mode: fp8, recipe: delayed",
                "mode: fp8, recipe: current",
                "mode: fp8, recipe: block",
                "mode: fp8, recipe: mxfp8",
                "mode: fp8, recipe: tensorwise",
                "mode: fp8, recipe: rowwise"
            })
    void each_precision_on_each_mesh_is_near_one_process(String precision) throws IOException {
        // tiny Qwen3 with 16 features is as far from F32 in FP8
        double tolerance = precision.equals("mode: fp32") ? 1e-6 : precision.startsWith("mode: fp8") ? 0.1 : 0.01;
        for (String model : List.of(
                "tiny-onnx/gpt2_eager_dynamo18.onnx",
                "tiny-onnx/llama_eager_dynamo18.onnx",
                "tiny-onnx/vit_eager_dynamo18.onnx",
                "tiny-hf/qwen3")) {
            String lines = "gradient_accumulation: 4\nprecision: {" + precision + "}";
            List<StepResult> one = steps(model, text(model, lines), Collectives.alone());
            for (String mesh : List.of(
                    "2 tensor: 2",
                    "2 tensor: 2, sequence_parallel: true",
                    "4 tensor: 2, zero: 2",
                    "4 tensor: 2, zero: 3, sequence_parallel: true",
                    "4 tensor: 4, sequence_parallel: true")) {
                if (mesh.startsWith("4 tensor: 4") && !model.contains("gpt2")) {
                    continue; // two heads of keys, or of all
                }
                List<StepResult> ranks = ranks(
                                mesh.charAt(0) - '0',
                                model,
                                text(model, lines, "distributed: {" + mesh.substring(2) + "}"))
                        .getFirst();
                for (int i = 0; i < STEPS; i++) {
                    String where = model + ", " + mesh + ", step " + (i + 1);
                    assertEquals(one.get(i).loss(), ranks.get(i).loss(), tolerance, where);
                }
            }
        }
    }

    @Test
    void the_page_has_the_memory_that_is_planned_for_tiny_gpt2() throws IOException {
        String model = "tiny-onnx/gpt2_eager_dynamo18.onnx";
        List<String> page = Files.readAllLines(
                Path.of(System.getProperty("octet.root", "..")).resolve("docs/distributed.md"));
        for (int tensor : new int[] {1, 2, 4}) {
            RunPlan plan = planned(model, "{tensor: " + tensor + "}");
            String shared = tensor == 1
                    ? ""
                    : String.format(
                            Locale.ROOT,
                            "%.1f kB ",
                            planned(model, "{tensor: " + tensor + ", sequence_parallel: true}")
                                            .temporaryBytes()
                                    / 1e3);
            String row = String.format(
                    Locale.ROOT,
                    "| `tensor: %d` | %.1f kB | %.1f kB | %s|",
                    tensor,
                    plan.lastingBytes() / 1e3,
                    plan.temporaryBytes() / 1e3,
                    shared);
            assertTrue(page.contains(row), row);
        }
    }

    private RunPlan planned(String model, String mesh) throws IOException {
        String text = data(model).replace("sequence: 6", "sequence: 8")
                + "batch_size: 2\nsteps: 2\noptimizer: {type: adamw}\nprecision: {mode: bf16}\ndistributed: " + mesh
                + "\n";
        try (TrainingJob job = open(model, text, Collectives.alone())) {
            return job.trainer().plan();
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "gpt2  | tensor: 2 | [c_attn, c_proj, c_fc]",
                "llama | tensor: 2, sequence_parallel: true | [q_proj, v_proj, o_proj, up_proj, down_proj]",
                "llama | tensor: 2, zero: 3 | [q_proj, k_proj, v_proj, o_proj]"
            })
    void an_adapter_is_cut_with_the_layers_that_it_is_of(String name, String mesh, String modules) throws IOException {
        String model = "tiny-hf/" + name;
        String adapter = "gradient_accumulation: 2\nadapter: {r: 4, lora_alpha: 8, target_modules: " + modules + "}";
        run(model, text(model, adapter), Collectives.alone(), "one", RunOptions.defaults());
        String shared = text(model, adapter, "distributed: {" + mesh + "}");
        int ranks = mesh.contains("zero") ? 4 : 2;
        runRanks(ranks, model, shared, "ranks", RunOptions.defaults().withMaxSteps(12));
        runRanks(ranks, model, shared, "ranks", RunOptions.defaults().resuming());
        List<Double> expected = losses("one");
        List<Double> got = losses("ranks");
        for (int i = 0; i < STEPS; i++) {
            assertEquals(expected.get(i), got.get(i), 1e-6, "step " + (i + 1));
        }
        try (CheckpointFile one = checkpoint("one", STEPS);
                CheckpointFile all = checkpoint("ranks", STEPS)) {
            assertEquals(
                    one.state().parameters().keySet(), all.state().parameters().keySet());
            one.state().parameters().forEach((weight, tensor) -> {
                Tensor other = requireNonNull(all.state().parameters().get(weight));
                assertEquals(tensor.shape(), other.shape());
                assertEquals(0, distance(tensor, other), 1e-4, weight);
            });
        }
        assertTrue(files("ranks", STEPS).containsKey("adapter_model.safetensors"));
    }

    @Test
    void a_base_that_stays_in_codes_is_refused() throws IOException {
        Path base = folder.resolve("base");
        Quantize.run(
                Quantize.CheckpointRequest.of(
                        MODELS.resolve("tiny-hf/llama"),
                        base,
                        requireNonNull(Recipes.byName(Recipes.CHECKPOINT).get("fp8-weight-only"))),
                Job.defaults());
        String text = text(
                "tiny-hf/llama",
                "adapter: {r: 4, lora_alpha: 8, target_modules: [q_proj]}",
                "distributed: {tensor: 2}");
        try (TrainingJob job = open(base.toString(), text, Collectives.alone())) {
            InvalidOptionException refused = assertThrows(
                    InvalidOptionException.class, () -> job.trainer().plan());
            assertTrue(
                    refused.what().endsWith("stays in the codes of its file, and ranks have parts of floats alone"),
                    refused.what());
        }
    }

    /** Ranks drop other elements of what they share, so that no run of one process has the same losses. */
    @Test
    void what_is_dropped_is_the_same_on_all_ranks_and_after_a_resume() throws IOException {
        String model = "tiny-hf/llama";
        String adapter =
                "adapter: {r: 4, lora_alpha: 8, lora_dropout: 0.3, target_modules: [q_proj, o_proj, down_proj]}";
        String shared = text(model, adapter, "distributed: {tensor: 2, sequence_parallel: true}");
        List<List<StepResult>> all = ranks(2, model, shared);
        assertEquals(all.getFirst(), all.getLast());
        runRanks(2, model, shared, "halves", RunOptions.defaults().withMaxSteps(7));
        runRanks(2, model, shared, "halves", RunOptions.defaults().resuming());
        List<Double> losses = losses("halves");
        for (int i = 0; i < STEPS; i++) {
            assertEquals(all.getFirst().get(i).loss(), losses.get(i), 0, "step " + (i + 1));
        }
    }

    @Test
    void a_hook_that_reads_gradients_is_refused() throws IOException {
        String text = text("tiny-hf/gpt2", "distributed: {tensor: 2}");
        TrainingHook reading = new TrainingHook() {
            @Override
            public boolean watchesGradients() {
                return true;
            }
        };
        UnavailableException failed = assertThrows(
                UnavailableException.class,
                () -> runRanks(
                        2, "tiny-hf/gpt2", text, "run", RunOptions.defaults().withHooks(List.of(reading))));
        InvalidOptionException why = assertInstanceOf(InvalidOptionException.class, failed.getCause());
        assertEquals("no rank has whole gradients, which a hook of the run reads", why.what());
    }
}
