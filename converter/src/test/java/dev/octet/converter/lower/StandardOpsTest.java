package dev.octet.converter.lower;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ai.onnxruntime.OrtException;
import dev.octet.converter.TinyModels;
import dev.octet.converter.pass.OnnxRuntimeOracle;
import dev.octet.converter.pass.PassLog;
import dev.octet.converter.rule.FusePatterns;
import dev.octet.converter.rule.RecoverNames;
import dev.octet.formats.ModelFile;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class StandardOpsTest {
    /**
     * Largest deviation allowed, as a share of the largest logit: 17 F32 roundings (2^-23 each). A fused norm sums in another order than
     * the nodes it replaces, nothing else may differ.
     */
    private static final double ROUNDING = 2e-6;
    /** PyTorch against ONNX Runtime, the same weights: measured 5e-7 for the exports as they are. */
    private static final double GOLDEN = 1e-5;

    private static GraphModel canonical(GraphModel model) {
        PassLog log = new PassLog();
        return new RecoverNames().apply(new FusePatterns().apply(model, log), log);
    }

    private static GraphModel lowered(GraphModel model) {
        return new StandardOps().apply(model, new PassLog());
    }

    @ParameterizedTest
    @MethodSource("dev.octet.converter.TinyModels#names")
    void an_export_made_canonical_and_back_computes_the_same(String name, @TempDir Path folder)
            throws IOException, OrtException {
        try (ModelFile file = TinyModels.open(name);
                ModelFile golden = TinyModels.golden(name)) {
            int rows = TinyModels.rows(name);
            float[] torch = TinyModels.tensor(golden, "out.logits").toFloats();
            float[] before = TinyModels.logits(TinyModels.graph(file), golden, rows, folder.resolve("before.onnx"));
            for (GraphModel model : TinyModels.spellings(file)) {
                GraphModel back = lowered(canonical(model));
                assertFalse(back.opsets().containsKey(Node.OCTET_DOMAIN));
                assertTrue(
                        back.graph().nodes().stream().noneMatch(n -> n.domain().equals(Node.OCTET_DOMAIN)));
                float[] after = TinyModels.logits(back, golden, rows, folder.resolve("after.onnx"));
                assertEquals(before.length, after.length);
                assertError(ROUNDING, before, after);
                assertError(GOLDEN, Arrays.copyOf(torch, after.length), after);
            }
        }
    }

    private static void assertError(double limit, float[] expected, float[] actual) {
        double error = TinyModels.relativeError(actual, expected);
        assertTrue(error <= limit, () -> "relative error " + error);
    }

    @ParameterizedTest
    @MethodSource("dev.octet.converter.TinyModels#names")
    void what_was_lowered_is_found_again_under_the_same_names(String name) throws IOException {
        try (ModelFile file = TinyModels.open(name)) {
            for (GraphModel model : TinyModels.spellings(file)) {
                GraphModel once = canonical(model);
                GraphModel twice = canonical(lowered(once));
                assertEquals(nodes(once), nodes(twice));
            }
        }
    }

    private static List<String> nodes(GraphModel model) {
        return model.graph().nodes().stream()
                .filter(n -> n.domain().equals(Node.OCTET_DOMAIN))
                .map(n -> n.name() + " " + n.opType() + n.inputs() + n.outputs() + n.attributes())
                .toList();
    }

    @Test
    void a_model_without_canonical_nodes_comes_back_as_it_is() {
        GraphModel model = model(Node.of("r", "Relu", List.of("x"), List.of("y")));
        assertSame(model, lowered(model));
    }

    @Test
    void operators_of_other_lowerings_stay_with_their_domain() {
        GraphModel model = model(
                        Node.of("g", "Gelu", Node.OCTET_DOMAIN, List.of("x"), List.of("z")),
                        Node.of("q", "Quantize", Node.OCTET_DOMAIN, List.of("z", "s"), List.of("y")))
                .withOpset(Node.OCTET_DOMAIN, 1, 8);
        GraphModel back = lowered(model);
        assertTrue(back.opsets().containsKey(Node.OCTET_DOMAIN));
        assertTrue(back.graph().nodes().getLast().isOctet("Quantize"));
        assertTrue(back.graph().nodes().stream().noneMatch(n -> n.isOctet("Gelu")));
    }

    @Test
    void a_GELU_of_half_precision_is_found_to_be_one_without_recorded_types() {
        Tensor weight = Tensor.allocate(Arena.ofAuto(), new TensorSpec("w", DType.F16, Shape.of(2, 2)));
        Graph g = Graph.of(
                "g",
                List.of(
                        Node.of("l", "Linear", Node.OCTET_DOMAIN, List.of("x", "w"), List.of("z")),
                        Node.of("r", "Relu", List.of("z"), List.of("z2")),
                        Node.of("g", "Gelu", Node.OCTET_DOMAIN, List.of("z2"), List.of("y"))),
                List.of(Initializer.of(weight)),
                List.of(),
                List.of());
        Graph back = lowered(GraphModel.of(g, 8, 17)).graph();
        assertTrue(back.initializers().size() > 1);
        assertTrue(back.initializers().values().stream()
                .allMatch(i -> i.tensor().orElseThrow().dtype() == DType.F16));
    }

    @Test
    void a_canonical_node_that_lacks_an_input_is_malformed() {
        GraphModel model = model(Node.of("l", "Linear", Node.OCTET_DOMAIN, List.of("x"), List.of("y")));
        MalformedModelException e = assertThrows(MalformedModelException.class, () -> lowered(model));
        assertEquals("dev.octet.Linear lacks input 1", e.what());
        assertEquals("node 'l'", e.where());
    }

    /** Octet's operators that have constants, with one input of two axes and with one of three. */
    static List<Arguments> withConstants() {
        List<Arguments> all = new ArrayList<>();
        for (DType narrow : List.of(DType.BF16, DType.F16)) {
            for (long[] x : new long[][] {{5, 3}, {2, 5, 3}}) {
                for (long opset : new long[] {14, 21, 23}) {
                    all.add(Arguments.of("Linear", narrow, x, opset));
                    all.add(Arguments.of("LayerNormalization", narrow, x, opset));
                    all.add(Arguments.of("RMSNormalization", narrow, x, opset));
                }
            }
        }
        return all;
    }

    @ParameterizedTest
    @MethodSource("withConstants")
    void a_narrow_constant_means_the_numbers_it_holds(
            String op, DType narrow, long[] x, long opset, @TempDir Path folder) throws IOException, OrtException {
        Tensor input = random("x", DType.F32, x);
        List<Tensor> constants = new ArrayList<>();
        constants.add(op.equals("Linear") ? random("w", narrow, 3, 3) : random("w", narrow, 3));
        if (!op.equals("RMSNormalization")) {
            constants.add(random("b", narrow, 3));
        }
        List<Tensor> wide = constants.stream().map(StandardOpsTest::widened).toList();
        for (long transB : op.equals("Linear") ? new long[] {0, 1} : new long[] {0}) {
            GraphModel narrowed = lowered(octet(op, transB, x, constants, opset));
            GraphModel widened = lowered(octet(op, transB, x, wide, opset));
            assertTrue(narrowed.graph().nodes().stream().anyMatch(n -> n.is("Cast")));
            assertTrue(widened.graph().nodes().stream().noneMatch(n -> n.is("Cast")));
            assertEquals(
                    OnnxRuntimeOracle.run(widened, List.of(input), folder),
                    OnnxRuntimeOracle.run(narrowed, List.of(input), folder));
        }
    }

    @Test
    void what_stands_behind_a_Linear_with_narrow_constants_is_as_wide_as_its_input() {
        Tensor weight = random("w", DType.BF16, 3, 3);
        Graph g = Graph.of(
                "g",
                List.of(
                        Node.of("l", "Linear", Node.OCTET_DOMAIN, List.of("x", "w"), List.of("z")),
                        Node.of("g", "Gelu", Node.OCTET_DOMAIN, List.of("z"), List.of("y"))),
                List.of(Initializer.of(weight)),
                List.of(floats("x", 2, 3)),
                List.of(floats("y", 2, 3)));
        Graph back = lowered(GraphModel.of(g, 8, 17)).graph();
        assertTrue(back.initializers().values().stream()
                .map(i -> i.tensor().orElseThrow())
                .filter(t -> t.shape().equals(Shape.SCALAR))
                .allMatch(t -> t.dtype() == DType.F32));
    }

    private static GraphModel octet(String op, long transB, long[] x, List<Tensor> constants, long opset) {
        List<String> inputs = new ArrayList<>(List.of("x"));
        constants.forEach(t -> inputs.add(t.name()));
        Node n = Node.of("n", op, Node.OCTET_DOMAIN, inputs, List.of("y"));
        n = op.equals("Linear") ? n.with(Attribute.of("transB", transB)) : n.with(Attribute.of("epsilon", 1e-3f));
        Graph g = Graph.of(
                "g",
                List.of(n),
                constants.stream().map(Initializer::of).toList(),
                List.of(floats("x", x)),
                List.of(floats("y", x)));
        return GraphModel.of(g, 8, opset).withOpset(Node.OCTET_DOMAIN, 1, 8);
    }

    private static ValueInfo floats(String name, long... dims) {
        return new ValueInfo(
                name,
                new ValueType.TensorType(
                        DType.F32, Arrays.stream(dims).mapToObj(Dim::of).toList()));
    }

    private static Tensor widened(Tensor t) {
        float[] wide = new float[(int) t.shape().elementCount()];
        for (int i = 0; i < wide.length; i++) {
            short bits = t.bytes().get(Tensor.I16_LE, 2L * i);
            wide[i] = t.dtype() == DType.F16 ? Float.float16ToFloat(bits) : Float.intBitsToFloat(bits << 16);
        }
        return Tensor.ofFloats(Arena.ofAuto(), t.name(), t.shape(), wide);
    }

    private static Tensor random(String name, DType dtype, long... shape) {
        SplittableRandom random = new SplittableRandom(name.hashCode());
        Tensor t = Tensor.allocate(Arena.ofAuto(), new TensorSpec(name, dtype, Shape.of(shape)));
        for (long i = 0; i < t.shape().elementCount(); i++) {
            float value = (float) random.nextDouble(-2, 2);
            switch (dtype) {
                case F32 -> t.bytes().set(Tensor.F32_LE, 4 * i, value);
                case F16 -> t.bytes().set(Tensor.I16_LE, 2 * i, Float.floatToFloat16(value));
                default -> t.bytes().set(Tensor.I16_LE, 2 * i, (short) (Float.floatToIntBits(value) >>> 16));
            }
        }
        return t;
    }

    private static GraphModel model(Node... nodes) {
        return GraphModel.of(Graph.of("g", List.of(nodes), List.of(), List.of(), List.of()), 8, 17);
    }
}
