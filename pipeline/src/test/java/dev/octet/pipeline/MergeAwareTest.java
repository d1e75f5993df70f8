package dev.octet.pipeline;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.checkpoint.WeightReader;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType;
import dev.octet.formats.peft.PeftAdapter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.pipeline.run.OpenedModel;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import dev.octet.trainer.adapter.AdaptedGraph;
import dev.octet.trainer.adapter.AdapterSettings;
import dev.octet.trainer.adapter.InitialValues;
import dev.octet.trainer.autodiff.StoredWeights;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.step.ForwardSession;
import dev.octet.trainer.step.GraphSource;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Training with {@code merge_aware: true} computes with the very numbers that {@code octet merge} writes. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class MergeAwareTest {
    private static final Path PLAIN = Path.of(System.getProperty("octet.testdata"), "checkpoints", "llama-128-small");

    @TempDir
    Path folder;

    private Path config(String adapter) throws IOException {
        SplittableRandom random = new SplittableRandom(5);
        ByteBuffer tokens = ByteBuffer.allocate(2 * 400).order(ByteOrder.LITTLE_ENDIAN);
        while (tokens.hasRemaining()) {
            tokens.putShort((short) random.nextInt(60));
        }
        Files.write(folder.resolve("tokens.bin"), tokens.array());
        return Files.writeString(folder.resolve("train.yaml"), """
            data: {train: tokens.bin, sequence: 12}
            loss: {type: causal-lm}
            batch_size: 2
            steps: 3
            optimizer: {type: adamw, lr: 0.02}
            precision: {mode: fp32}
            adapter: {%s}
            """.formatted(adapter));
    }

    /** A PEFT folder of an adapter that was trained for three steps. */
    private Path trained(Path base, String adapter) throws IOException {
        Path out = folder.resolve("adapter");
        try (TrainingJob job = TrainingJob.open(base, config(adapter));
                Arena arena = Arena.ofShared()) {
            for (int step = 1; step <= 3; step++) {
                job.trainer().step(step);
            }
            Map<String, Tensor> factors = new LinkedHashMap<>();
            job.trainer().parameters(arena).forEach((name, tensor) -> {
                if (name.contains("lora_")) {
                    factors.put(name, tensor);
                }
            });
            assertTrue(factors.size() >= 4, factors.keySet().toString());
            PeftAdapter.write(out, job.config().adapter().orElseThrow().config().withBaseModel("base"), factors);
        }
        return out;
    }

    private Path quantised(Recipe recipe) throws IOException {
        Path base = folder.resolve("base");
        Quantize.run(Quantize.CheckpointRequest.of(PLAIN, base, recipe), Job.defaults());
        return base;
    }

    /** What the training program multiplies with: the outputs of each merged Linear for the unit vectors. */
    private static Map<String, float[]> weightsOfTheProgram(Path base, Path adapter) throws IOException {
        Map<String, float[]> weights = new LinkedHashMap<>();
        try (OpenedModel model = OpenedModel.asStored(base);
                PeftAdapter peft = PeftAdapter.open(adapter);
                Device device = DeviceName.CPU.open(2)) {
            AdaptedGraph adapted = new AdapterSettings(peft.config(), Optional.of(adapter), 0)
                    .adapt(model.canonical(), InitialValues.continuing(peft.tensors(), "adapter"));
            Graph graph = adapted.model().graph();
            for (Node node : graph.nodes()) {
                if (!node.attributes().containsKey("merged")) {
                    continue;
                }
                Shape shape = requireNonNull(graph.initializers().get(node.input(1)))
                        .spec()
                        .orElseThrow()
                        .shape();
                int in = Math.toIntExact(shape.dim(1));
                int out = Math.toIntExact(shape.dim(0));
                GraphModel one = alone(adapted.model(), node, in, out);
                float[] unit = new float[in * in];
                for (int i = 0; i < in; i++) {
                    unit[i * in + i] = 1;
                }
                try (ForwardSession session = new ForwardSession(
                                GraphSource.fixed(one),
                                List.of("y"),
                                PrecisionPolicy.FP32,
                                Map.of(),
                                StoredWeights.of(one.graph(), Set.of()),
                                Map.of(),
                                device);
                        Arena arena = Arena.ofShared()) {
                    Tensor x = Tensor.ofFloats(arena, "x", Shape.of(in, in), unit);
                    float[] y = requireNonNull(
                                    session.outputs(Map.of("x", x), arena).get("y"))
                            .toFloats();
                    float[] weight = new float[in * out];
                    for (int i = 0; i < in; i++) {
                        for (int o = 0; o < out; o++) {
                            weight[o * in + i] = y[i * out + o];
                        }
                    }
                    weights.put(node.input(1), weight);
                }
            }
        }
        return weights;
    }

    private static GraphModel alone(GraphModel model, Node node, int in, int out) {
        List<String> inputs = new ArrayList<>(node.inputs());
        inputs.set(0, "x");
        Map<String, Initializer> constants = new LinkedHashMap<>(model.graph().initializers());
        constants.keySet().retainAll(inputs);
        Graph graph = Graph.of(
                "one",
                List.of(node.withInputs(inputs).withOutputs(List.of("y"))),
                List.copyOf(constants.values()),
                List.of(matrix("x", in, in)),
                List.of(matrix("y", in, out)));
        return model.withGraph(graph);
    }

    private static ValueInfo matrix(String name, int rows, int cols) {
        return new ValueInfo(name, new ValueType.TensorType(DType.F32, List.of(Dim.of(rows), Dim.of(cols))));
    }

    private static Map<String, float[]> weightsOfTheFile(Path checkpoint) throws IOException {
        Map<String, float[]> weights = new LinkedHashMap<>();
        try (CheckpointConverter converter = CheckpointConverter.open(checkpoint);
                Arena arena = Arena.ofConfined()) {
            WeightReader reader = WeightReader.of(converter.checkpoint(), converter.stored());
            for (String name : converter.stored().weights().keySet()) {
                Shape shape = reader.shape(name);
                MemorySegment floats = arena.allocate(shape.elementCount() * Float.BYTES, 64);
                reader.read(name, 0, shape.dim(0), floats);
                float[] values = floats.toArray(Tensor.F32_LE);
                for (int i = 0; i < values.length; i++) {
                    values[i] += 0f; // sums of products have no -0
                }
                weights.put(name, values);
            }
        }
        return weights;
    }

    /** Two targets of three fused weights, and all of them. */
    @ParameterizedTest
    @CsvSource({
        "fp8-dynamic, '[q_proj, v_proj, down_proj]'",
        "fp8, '[q_proj, v_proj, down_proj]'",
        "fp8, all-linear",
        "fp8-block, all-linear",
        "mxfp8, all-linear",
        "nvfp4, '[q_proj, v_proj, down_proj]'",
        "nvfp4, all-linear",
        "int8, all-linear",
        "int8-asymmetric, '[q_proj, down_proj]'"
    })
    void training_multiplies_with_the_numbers_of_the_merged_file_bit_for_bit(String recipe, String targets)
            throws IOException {
        Path base = quantised(requireNonNull(Recipes.byName(Recipes.CHECKPOINT).get(recipe)));
        Path adapter = trained(base, "r: 4, lora_alpha: 8, merge_aware: true, target_modules: " + targets);
        Map<String, float[]> program = weightsOfTheProgram(base, adapter);
        Path out = folder.resolve("merged");
        Merge.Result result = Merge.run(Merge.Request.of(base, List.of(adapter), out), Job.defaults());
        Map<String, float[]> file = weightsOfTheFile(out);
        Map<String, float[]> before = weightsOfTheFile(base);
        assertTrue(program.size() >= 2, program.keySet().toString());
        program.forEach((name, weight) -> {
            assertArrayEquals(file.get(name), weight, name);
            assertFalse(Arrays.equals(before.get(name), weight), name);
        });
        assertEquals(program.size(), result.weights().size());
        // the proof runs the program that was trained against the file
        assertNotNull(result.proof(), result.proofMissing());
        assertTrue(result.proof().worst() < 1e-5, result.proof().toString());
    }

    @Test
    void factors_get_gradients_as_if_nothing_were_rounded() throws IOException {
        Path base = quantised(Recipes.INT8);
        Map<String, float[]> aware = afterOneStep(base, "r: 4, merge_aware: true, target_modules: all-linear");
        Map<String, float[]> plain = afterOneStep(base, "r: 4, target_modules: all-linear");
        assertEquals(plain.keySet(), aware.keySet());
        // B starts as zero and codes of codes are the codes, so both steps have the same loss and the same gradients
        plain.forEach((name, values) -> assertArrayEquals(values, aware.get(name), 1e-5f, name));
    }

    private Map<String, float[]> afterOneStep(Path base, String adapter) throws IOException {
        Map<String, float[]> values = new LinkedHashMap<>();
        try (TrainingJob job = TrainingJob.open(base, config(adapter));
                Arena arena = Arena.ofShared()) {
            values.put("loss", new float[] {(float) job.trainer().step(1).loss()});
            job.trainer().parameters(arena).forEach((name, tensor) -> {
                if (name.contains("lora_")) {
                    values.put(name, tensor.toFloats());
                }
            });
        }
        return values;
    }

    @Test
    void what_has_no_merged_weight_to_compute_with_is_refused() throws IOException {
        Path base = quantised(Recipes.FP8_DYNAMIC);
        for (String more : List.of("use_dora: true", "lora_dropout: 0.1", "init_lora_weights: pissa")) {
            Path config = config("r: 4, merge_aware: true, target_modules: [q_proj], " + more);
            InvalidOptionException e = assertThrows(
                    InvalidOptionException.class,
                    () -> TrainingJob.open(base, config).close());
            assertTrue(e.what().contains("merge_aware does not go with"), e.what());
        }
        Path config = config("r: 4, merge_aware: true, target_modules: [q_proj]");
        InvalidOptionException e = assertThrows(
                InvalidOptionException.class,
                () -> TrainingJob.open(PLAIN, config).close());
        assertTrue(e.what().contains("quantised bases"), e.what());
    }
}
