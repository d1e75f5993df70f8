package dev.octet.trainer.activation;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.PlantedDevice;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.precision.Autocast;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.MemoryPlan;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import dev.octet.trainer.step.TrainingSession;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Models of other kinds than plain checkpoints whose layers are computed again, and what becomes of their weights' casts. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class RecomputedModelsTest {
    private static final ActivationSettings ALL = new ActivationSettings(new Recompute.Layers(1), Kept.AS_THEY_ARE);

    private static PrecisionPolicy policy(String name) {
        return Objects.requireNonNull(TinyRun.policies().get(name));
    }

    private static void requireSame(TinyRun run, PrecisionPolicy policy, ActivationSettings settings) {
        try (Device device = CpuDevice.of(2)) {
            try (TrainingSession session = new TrainingSession(run.setup(policy, settings), device)) {
                assertTrue(session.program(run.batch(0)).steps().stream().anyMatch(Step::repeats));
            }
            Map<String, byte[]> expected = run.steps(2, policy, ActivationSettings.NONE, device);
            Map<String, byte[]> actual = run.steps(2, policy, settings, device);
            assertEquals(expected.keySet(), actual.keySet());
            expected.forEach((name, bytes) -> assertArrayEquals(bytes, actual.get(name), name));
        }
    }

    @ParameterizedTest
    @CsvSource({"gpt2, c_attn, c_fc", "llama, q_proj, down_proj"})
    void adapters_have_the_same_bytes(String model, String first, String second) throws IOException {
        try (TinyRun run = TinyRun.adapted(model, first, second)) {
            for (String precision : List.of("fp32", "bf16", "delayed", "current")) {
                requireSame(run, policy(precision), ALL);
            }
        }
    }

    @Test
    void a_convolutional_net_has_the_same_bytes() {
        try (TinyRun run = TinyRun.ofImages(convolutions())) {
            requireSame(run, PrecisionPolicy.FP32, ALL);
            requireSame(run, Autocast.bf16(), ALL);
        }
    }

    /** {@code h += conv2(relu(conv1(h)))}, as torchvision names it. */
    private static GraphModel convolutions() {
        SplittableRandom random = new SplittableRandom(5);
        List<Tensor> weights = new ArrayList<>();
        List<Node> nodes = new ArrayList<>();
        convolution(nodes, weights, random, "conv1", "pixel_values", "h", 3);
        String h = "h";
        for (int i = 0; i < 3; i++) {
            String b = "layer1." + i + ".";
            convolution(nodes, weights, random, b + "conv1", h, b + "a", 8);
            nodes.add(Node.of(b + "relu", "Relu", List.of(b + "a"), List.of(b + "r")));
            convolution(nodes, weights, random, b + "conv2", b + "r", b + "b", 8);
            nodes.add(Node.of(b + "add", "Add", List.of(h, b + "b"), List.of(b + "h")));
            h = b + "h";
        }
        nodes.add(Node.of("pool", "GlobalAveragePool", List.of(h), List.of("pooled")));
        nodes.add(Node.of("flatten", "Flatten", List.of("pooled"), List.of("flat")));
        weights.add(normal(random, "fc.weight", 8, 4));
        nodes.add(Node.of("fc", "Linear", Node.OCTET_DOMAIN, List.of("flat", "fc.weight"), List.of("logits")));
        Graph graph = Graph.of(
                "convolutions",
                nodes,
                weights.stream().map(Initializer::of).toList(),
                List.of(new ValueInfo(
                        "pixel_values",
                        new TensorType(DType.F32, List.of(Dim.of(2), Dim.of(3), Dim.of(16), Dim.of(16))))),
                List.of(new ValueInfo("logits", new TensorType(DType.F32, List.of(Dim.of(2), Dim.of(4))))));
        return GraphModel.of(graph, 10, 21);
    }

    private static void convolution(
            List<Node> nodes, List<Tensor> weights, SplittableRandom random, String name, String x, String y, int in) {
        weights.add(normal(random, name + ".weight", 8, in, 3, 3));
        nodes.add(Node.of(
                name, "Conv", List.of(x, name + ".weight"), List.of(y), Attribute.of("pads", List.of(1L, 1L, 1L, 1L))));
    }

    private static Tensor normal(SplittableRandom random, String name, long... dims) {
        Shape shape = Shape.of(dims);
        float[] x = new float[(int) shape.elementCount()];
        for (int i = 0; i < x.length; i++) {
            x[i] = (float) (random.nextGaussian() / 5);
        }
        return Tensor.ofFloats(Arena.ofAuto(), name, shape, x);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "bert_eager_dynamo18", "bert_eager_dynamo23", "bert_eager_script14", "bert_eager_script17",
                "gpt2_eager_dynamo18", "gpt2_eager_dynamo23", "gpt2_eager_script14", "gpt2_eager_script17",
                "llama_eager_dynamo18", "llama_eager_dynamo23", "llama_eager_script14", "llama_eager_script17",
                "vit_eager_dynamo18", "vit_eager_dynamo23", "vit_eager_script14", "vit_eager_script17"
            })
    void layers_of_exports_have_the_names_of_their_exporter(String name) throws IOException {
        try (TinyRun run = TinyRun.open(name + ".onnx");
                Device device = CpuDevice.of(2);
                TrainingSession session =
                        new TrainingSession(run.setup(PrecisionPolicy.FP32, ActivationSettings.NONE), device)) {
            Program plain = session.program(run.batch(0));
            Layers layers = Layers.in(plain);
            assertEquals(2, layers.count(), layers.names() + " of " + name);
            for (int layer = 0; layer < 2; layer++) {
                int wanted = layer;
                long linears = IntStream.range(0, plain.steps(Phase.FORWARD).size())
                        .filter(i -> layers.of(i) == wanted)
                        .filter(i ->
                                plain.steps(Phase.FORWARD).get(i).op().type().matches("Linear|Gemm|MatMul"))
                        .count();
                assertTrue(linears >= 4, linears + " products in layer " + layer);
            }
            if (name.endsWith("17") || name.endsWith("23")) {
                requireSame(run, Autocast.bf16(), ALL);
            }
        }
    }

    @Test
    void casts_and_codes_of_layers_do_not_outlive_them() throws IOException {
        try (TinyRun run = TinyRun.open("llama");
                Device device = CpuDevice.of(2)) {
            for (String precision : List.of("bf16", "delayed", "current", "block")) {
                long[] bytes = new long[2];
                for (int i = 0; i < 2; i++) {
                    ActivationSettings settings = i == 0 ? ActivationSettings.NONE : ALL;
                    try (TrainingSession session =
                            new TrainingSession(run.setup(policy(precision), settings), device)) {
                        Program program = session.program(run.batch(0));
                        bytes[i] = MemoryPlan.bytes(program, ValueRole.PREPARED);
                        Set<String> prepared = new HashSet<>();
                        program.lasting().stream()
                                .filter(v -> v.role() == ValueRole.PREPARED
                                        && v.type().count() > 1)
                                .forEach(v -> prepared.add(v.name()));
                        assertEquals(i == 0, prepared.stream().anyMatch(n -> n.contains("layers.")), prepared + "");
                    }
                }
                assertTrue(bytes[1] < bytes[0], precision + Arrays.toString(bytes));
            }
        }
    }

    @Test
    void evaluation_makes_no_casts_that_last_either() throws IOException {
        try (TinyRun run = TinyRun.open("gpt2");
                Device device = CpuDevice.of(2)) {
            List<Object> losses = new ArrayList<>();
            long[] lasting = new long[2];
            for (int i = 0; i < 2; i++) {
                ActivationSettings settings = i == 0 ? ActivationSettings.NONE : ALL;
                try (TrainingSession session = new TrainingSession(run.setup(policy("current"), settings), device)) {
                    session.prepare(run.batch(0));
                    long before = session.lastingBytes();
                    losses.add(session.evaluate(run.batch(0)).orElseThrow());
                    lasting[i] = session.lastingBytes() - before;
                }
            }
            assertEquals(losses.getFirst(), losses.getLast());
            assertEquals(lasting[0], lasting[1]);
        }
    }

    @Test
    void without_the_copies_of_scales_delayed_scaling_would_have_other_bytes() throws IOException {
        try (TinyRun run = TinyRun.open("gpt2");
                Device device = CpuDevice.of(2)) {
            Map<String, byte[]> expected = run.steps(3, policy("delayed"), ActivationSettings.NONE, device);
            for (ValueRole role : List.of(ValueRole.TEMPORARY, ValueRole.PREPARED)) {
                Set<String> replaced = new HashSet<>();
                Device planted = PlantedDevice.of(device, p -> withoutCopies(p, role, replaced));
                Map<String, byte[]> actual = run.steps(3, policy("delayed"), ALL, planted);
                assertFalse(replaced.isEmpty(), "no copies in " + role);
                assertTrue(
                        expected.entrySet().stream()
                                .anyMatch(e -> !Arrays.equals(e.getValue(), actual.get(e.getKey()))),
                        "the copies of " + replaced + " make no difference");
            }
        }
    }

    /** A program whose steps read states themselves where they are to read copies. */
    private static Program withoutCopies(Program program, ValueRole role, Set<String> replaced) {
        Map<String, Value> states = new HashMap<>();
        program.values().stream()
                .filter(v -> v.role() == ValueRole.STATE)
                .forEach(v -> states.put("kept:" + v.name(), v));
        List<Step> steps = new ArrayList<>();
        for (Step s : program.steps()) {
            List<@Nullable Value> inputs = new ArrayList<>();
            for (Value v : s.inputs()) {
                Value state = v == null || v.role() != role ? null : states.get(v.name());
                inputs.add(state == null ? v : state);
                if (state != null) {
                    replaced.add(state.name());
                }
            }
            steps.add(new Step(
                    s.phase(),
                    s.node(),
                    s.op(),
                    s.backward(),
                    inputs,
                    s.outputs(),
                    s.upstream(),
                    s.gradients(),
                    s.accumulated(),
                    s.repeats()));
        }
        return new Program(
                program.values(),
                steps,
                program.inputs(),
                program.outputs(),
                program.gradients(),
                program.constants(),
                program.stored(),
                program.initialStates());
    }
}
