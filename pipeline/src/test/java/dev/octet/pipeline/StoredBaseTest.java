package dev.octet.pipeline;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.ModelSource;
import dev.octet.converter.checkpoint.Selection;
import dev.octet.formats.ModelFile;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.model.Model;
import dev.octet.formats.npy.NpzWriter;
import dev.octet.formats.tensor.CodedTensor;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import dev.octet.trainer.autodiff.Parameters;
import dev.octet.trainer.hook.RunPlan;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Adapters over bases that stay in the bytes they are stored in. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class StoredBaseTest {
    private static final Path CHECKPOINTS =
            Path.of(System.getProperty("octet.testdata")).resolve("checkpoints");
    private static final Path PLAIN = CHECKPOINTS.resolve("llama-128");
    private static final Job JOB = Job.defaults().withThreads(2);
    private static final int STEPS = 3;
    private static final String LORA = "adapter: {peft_type: LORA, r: 4, target_modules: all-linear}\n";

    @TempDir
    Path folder;

    static List<Recipe> recipes() {
        return Recipes.CHECKPOINT;
    }

    @BeforeEach
    void write_tokens() throws IOException {
        write_tokens(256);
    }

    private void write_tokens(int vocabulary) throws IOException {
        SplittableRandom random = new SplittableRandom(11);
        ByteBuffer tokens = ByteBuffer.allocate(2 * 400).order(ByteOrder.LITTLE_ENDIAN);
        while (tokens.hasRemaining()) {
            tokens.putShort((short) random.nextInt(vocabulary));
        }
        Files.write(folder.resolve("tokens.bin"), tokens.array());
    }

    private Path quantised(Recipe recipe, String... alsoQuantised) throws IOException {
        Path model = folder.resolve(recipe.name() + alsoQuantised.length);
        Quantize.CheckpointRequest request = Quantize.CheckpointRequest.of(PLAIN, model, recipe);
        List<Pattern> include = Stream.of(alsoQuantised).map(Pattern::compile).toList();
        Selection selection = new Selection(List.of(), List.of(), include, Map.of());
        Quantize.run(request.withSelection(selection), JOB);
        return model;
    }

    private Path dequantised(Path model) throws IOException {
        Path copy = folder.resolve(model.getFileName() + "-f32");
        Dequantize.run(Dequantize.Request.of(model, copy).withType(DType.F32), JOB);
        return copy;
    }

    private TrainingJob open(Path model, String precision, String adapter) throws IOException {
        Path yaml = folder.resolve("train.yaml");
        Files.writeString(
                yaml,
                "data: {train: tokens.bin, sequence: 16}\nbatch_size: 4\nloss: {type: causal-lm}\nsteps: " + STEPS
                        + "\nseed: 3\noptimizer: {type: adamw, lr: 0.02}\n" + precision + adapter);
        return TrainingJob.open(model, yaml);
    }

    /** Losses before each step, so that all but the first show what training made of the adapter. */
    private List<Double> losses(Path model, String precision, String adapter) throws IOException {
        List<Double> losses = new ArrayList<>();
        try (TrainingJob job = open(model, precision, adapter)) {
            for (long step = 1; step <= STEPS; step++) {
                losses.add(job.trainer().step(step).loss());
            }
        }
        return losses;
    }

    private RunPlan plan(Path model, String precision) throws IOException {
        try (TrainingJob job = open(model, precision, LORA)) {
            return job.trainer().plan();
        }
    }

    private static void assertNear(List<Double> expected, List<Double> actual, double relative) {
        for (int i = 0; i < expected.size(); i++) {
            assertEquals(expected.get(i), actual.get(i), relative * expected.get(i), "step " + (i + 1));
        }
    }

    private static long weightBytes(Path model) throws IOException {
        try (Stream<Path> files = Files.list(model)) {
            return files.filter(f -> f.toString().endsWith(".safetensors"))
                    .mapToLong(f -> f.toFile().length())
                    .sum();
        }
    }

    @ParameterizedTest
    @MethodSource("recipes")
    void losses_over_a_quantised_base_are_those_over_its_dequantised_copy(Recipe recipe) throws IOException {
        Path model = quantised(recipe, "embed_tokens", "lm_head");
        List<Double> dense = losses(dequantised(model), "precision: {mode: fp32}\n", LORA);
        List<Double> stored = losses(model, "precision: {mode: fp32}\n", LORA);
        assertNotEquals(dense.get(0), dense.get(2)); // the adapter has learnt
        assertNear(dense, stored, 1e-6);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "{peft_type: LORA, r: 4, target_modules: all-linear, use_dora: true}",
                "{peft_type: LORA, r: 4, target_modules: [q_proj, embed_tokens], init_lora_weights: pissa}",
                "{peft_type: LORA, r: 4, target_modules: [q_proj], modules_to_save: [lm_head]}",
                "{peft_type: IA3, target_modules: [k_proj, down_proj], feedforward_modules: [down_proj]}"
            })
    void every_method_reads_the_base_in_its_bytes(String adapter) throws IOException {
        Path model = quantised(Recipes.FP8_BLOCK, "embed_tokens", "lm_head");
        List<Double> dense = losses(dequantised(model), "precision: {mode: fp32}\n", "adapter: " + adapter + "\n");
        List<Double> stored = losses(model, "precision: {mode: fp32}\n", "adapter: " + adapter + "\n");
        assertNotEquals(dense.get(0), dense.get(2));
        assertNear(dense, stored, 1e-6);
    }

    @ParameterizedTest
    @MethodSource("recipes")
    void weights_take_the_bytes_of_the_file_and_the_adapters_states(Recipe recipe) throws IOException {
        Path model = quantised(recipe, "embed_tokens", "lm_head");
        RunPlan plan = plan(model, "precision: {mode: bf16}\n");
        // master, gradient, two moments and a narrow copy of what is trained; norms in F32
        long states = plan.trainedElements() * (4 * 4 + 2);
        assertTrue(
                plan.lastingBytes() <= weightBytes(model) + states + 20_000,
                plan.lastingBytes() + " of " + weightBytes(model) + " and " + states);
        assertTrue(plan.frozenElements() > 1_000_000, plan.frozenElements() + " frozen");
    }

    @Test
    void a_plain_base_stays_in_its_bytes_too() throws IOException {
        RunPlan plan = plan(PLAIN, "precision: {mode: fp32}\n");
        long states = plan.trainedElements() * 4 * 4;
        assertTrue(plan.lastingBytes() <= weightBytes(PLAIN) + states + 20_000, plan.lastingBytes() + " bytes");
    }

    /** A new adapter changes nothing, so the first loss is that of the model itself, all of whose weights are F32 parameters there. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "llama-128",
                "llama",
                "gpt2",
                "qwen2",
                "foreign/ct-nvfp4",
                "foreign/ct-pack-int4-group-asymmetric"
            })
    void the_first_loss_is_that_of_the_model_without_an_adapter(String model) throws IOException {
        Path path = CHECKPOINTS.resolve(model);
        write_tokens(60);
        double whole = losses(path, "precision: {mode: fp32}\n", "").getFirst();
        double adapted = losses(path, "precision: {mode: fp32}\n", LORA).getFirst();
        assertEquals(whole, adapted, 1e-6 * whole);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "{mode: bf16}",
                "{mode: fp16}",
                "{mode: fp8, recipe: delayed}",
                "{mode: fp8, recipe: current}",
                "{mode: fp8, recipe: block}",
                "{mode: fp8, recipe: mxfp8}",
                "{mode: fp8, recipe: rowwise}",
                "{mode: fp8, recipe: qat}"
            })
    void every_precision_trains_over_codes_and_over_floats(String precision) throws IOException {
        for (Path model : List.of(quantised(Recipes.FP8_BLOCK), PLAIN)) {
            List<Double> exact = losses(model, "precision: {mode: fp32}\n", LORA);
            List<Double> narrow = losses(model, "precision: " + precision + "\n", LORA);
            assertNear(exact, narrow, 0.01);
            assertNotEquals(exact, narrow);
        }
    }

    @Test
    void weights_in_codes_are_not_rounded_again_under_a_recipe() throws IOException {
        // E4M3 for each channel in the file; a recipe with one scale would round it to other numbers
        Path model = quantised(Recipes.FP8_DYNAMIC, "lm_head");
        try (TrainingJob job = open(model, "precision: {mode: fp8, recipe: current}\n", LORA)) {
            RunPlan plan = job.trainer().plan();
            assertEquals(15, plan.fp8Linears());
            long states = plan.trainedElements() * (4 * 4 + 2);
            // no codes of a second rounding, no narrow copies
            assertTrue(plan.lastingBytes() <= weightBytes(model) + states + 20_000, plan.lastingBytes() + " bytes");
        }
    }

    private static List<String> onnx() {
        return List.of("llama_eager_dynamo18", "gpt2_eager_script17");
    }

    /** What Octet quantised: codes behind DequantizeLinear, in [in, out] with a scale for each column; activations rounded with static scales. */
    @ParameterizedTest
    @MethodSource("onnx")
    void a_quantised_onnx_model_is_trained_on_in_its_codes(String name) throws IOException {
        Path model = CHECKPOINTS.resolveSibling("models/tiny-onnx/" + name + ".onnx");
        write_tokens(60);
        for (boolean roundsActivations : new boolean[] {false, true}) {
            Path coded = folder.resolve("coded" + roundsActivations + ".onnx");
            Quantize.GraphRequest request = Quantize.GraphRequest.of(model, coded);
            Quantize.run(
                    roundsActivations
                            ? request.withSamples(SampleSource.of(samples()))
                            : request.withRecipe(Recipes.FP8_WEIGHT_ONLY),
                    JOB);
            Path dense = folder.resolve("dense" + roundsActivations + ".onnx");
            int linears = dequantise(coded, dense);
            assertTrue(linears >= 8, linears + " in codes");
            List<Double> expected = losses(dense, "precision: {mode: fp32}\n", LORA);
            List<Double> actual = losses(coded, "precision: {mode: fp32}\n", LORA);
            assertNear(expected, actual, 1e-6);
            assertTrue(plan(coded, "precision: {mode: fp32}\n").lastingBytes()
                    < plan(dense, "precision: {mode: fp32}\n").lastingBytes() - 20_000);
        }
    }

    /** Writes the model with floats in place of codes; how many constants were codes. */
    private static int dequantise(Path coded, Path dense) throws IOException {
        try (ModelSource source = ModelSource.openAsStored(coded)) {
            GraphModel model = source.model().graph().orElseThrow();
            GraphEdit edit = GraphEdit.of(model.graph());
            int count = 0;
            for (Initializer constant : model.graph().initializers().values()) {
                if (constant.data() instanceof Initializer.Coded(CodedTensor tensor)) {
                    edit.putInitializer(
                            Initializer.of(Parameters.decoded(tensor).withName(constant.name())));
                    count++;
                }
            }
            ModelFile.save(Model.of(model.withGraph(edit.build())), dense);
            return count;
        }
    }

    private Path samples() throws IOException {
        Path file = folder.resolve("samples.npz");
        try (Arena arena = Arena.ofConfined();
                NpzWriter writer = NpzWriter.stored(file)) {
            long[] ids = new SplittableRandom(5).longs(4 * 16, 1, 60).toArray();
            long[] mask = new long[ids.length];
            Arrays.fill(mask, 1);
            writer.add(Tensor.ofLongs(arena, "input_ids", Shape.of(4, 16), ids));
            writer.add(Tensor.ofLongs(arena, "attention_mask", Shape.of(4, 16), mask));
            writer.commit();
        }
        return file;
    }
}
