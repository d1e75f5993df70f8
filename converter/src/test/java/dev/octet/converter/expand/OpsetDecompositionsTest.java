package dev.octet.converter.expand;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ai.onnxruntime.OrtException;
import dev.octet.converter.pass.OnnxRuntimeOracle;
import dev.octet.formats.ModelFile;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Bytes;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Function;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.onnx.OnnxReader;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What the operators compute is what ONNX's own test cases expect of them, in ONNX Runtime. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class OpsetDecompositionsTest {
    /** Sums of some ten products of numbers below 1 in another order; ONNX Runtime's own operators are off by 5e-7. */
    private static final double F32_ERROR = 1e-6;
    /** Two roundings to F16 of numbers below 1. */
    private static final double F16_ERROR = 1e-3;

    private static final Path CASES = Path.of(System.getProperty("octet.testdata"), "models/opset23/nodes.safetensors");

    private static @Nullable ModelFile file;

    @BeforeAll
    static void open() throws IOException {
        file = ModelFile.open(CASES);
    }

    @AfterAll
    static void close() {
        Objects.requireNonNull(file).close();
    }

    private static Map<String, Tensor> tensors() {
        return Objects.requireNonNull(file).model().tensors();
    }

    static List<String> cases() throws IOException {
        try (ModelFile all = ModelFile.open(CASES)) {
            return all.model().tensors().keySet().stream()
                    .filter(n -> n.endsWith("/model"))
                    .map(n -> n.substring(0, n.indexOf('/')))
                    .sorted()
                    .toList();
        }
    }

    @ParameterizedTest
    @MethodSource("cases")
    void at_opset_21_a_node_gives_what_ONNX_expects_of_it(String name, @TempDir Path folder)
            throws IOException, OrtException {
        check(name, read(name, folder), 21, folder);
    }

    @ParameterizedTest
    @MethodSource("cases")
    void so_it_does_where_sizes_are_symbols(String name, @TempDir Path folder) throws IOException, OrtException {
        check(name, symbolic(read(name, folder)), 21, folder);
    }

    @ParameterizedTest
    @MethodSource("cases")
    void what_came_after_opset_23_does_so_there(String name, @TempDir Path folder) throws IOException, OrtException {
        GraphModel model = read(name, folder);
        Node node = model.graph().nodes().getFirst();
        if (new LaterOpsets(23).problem(node, null) == null) {
            assertEquals(
                    List.of(node), OpsetDecompositions.apply(model, 23).graph().nodes(), "what opset 23 knows stays");
        } else {
            check(name, model, 23, folder);
        }
    }

    private static GraphModel read(String name, Path folder) throws IOException {
        Path onnx = folder.resolve("case.onnx");
        Files.write(onnx, bytes(name + "/model"));
        return OnnxReader.read(onnx, Arena.ofAuto());
    }

    private static byte[] bytes(String tensor) {
        return Objects.requireNonNull(tensors().get(tensor), tensor).bytes().toArray(ValueLayout.JAVA_BYTE);
    }

    /** Every input's batch and sequence have names of their own; so have all axes of masks and of position ids. */
    private static GraphModel symbolic(GraphModel model) {
        Graph g = model.graph();
        List<ValueInfo> inputs = new ArrayList<>();
        for (ValueInfo v : g.inputs()) {
            TensorType t = (TensorType) Objects.requireNonNull(v.type());
            List<Dim> dims = new ArrayList<>(Objects.requireNonNull(t.dims()));
            boolean heads =
                    List.of("Q", "K", "V", "input", "past_key", "past_value").contains(v.name())
                            && !g.nodes().getFirst().is("RMSNormalization");
            for (int i = 0; i < dims.size(); i++) {
                if (!heads || i == 0 || i == dims.size() - 2) {
                    dims.set(i, Dim.of(v.name() + "_" + i));
                }
            }
            inputs.add(v.withType(new TensorType(t.dtype(), dims)));
        }
        return model.withGraph(new Graph(
                g.name(),
                g.nodes(),
                g.initializers(),
                inputs,
                g.outputs().stream()
                        .map(o -> o.withType(
                                new TensorType(((TensorType) Objects.requireNonNull(o.type())).dtype(), null)))
                        .toList(),
                g.valueInfos(),
                g.doc(),
                g.metadata(),
                g.unknown()));
    }

    private static void check(String name, GraphModel model, int opset, Path folder) throws IOException, OrtException {
        GraphModel written = OpsetDecompositions.apply(model, opset);
        assertEquals(opset, written.opset());
        LaterOpsets later = new LaterOpsets(opset);
        assertTrue(written.graph().nodes().stream().allMatch(n -> later.problem(n, null) == null));
        List<Tensor> inputs = new ArrayList<>();
        for (ValueInfo v : model.graph().inputs()) {
            Tensor t = Objects.requireNonNull(tensors().get(name + "/in." + v.name()), v.name());
            inputs.add(new Tensor(new TensorSpec(v.name(), t.dtype(), t.shape()), t.bytes()));
        }
        List<OnnxRuntimeOracle.Output> outputs = OnnxRuntimeOracle.run(written, inputs, folder);
        for (int i = 0; i < outputs.size(); i++) {
            String output = model.graph().outputs().get(i).name();
            assertClose(Objects.requireNonNull(tensors().get(name + "/out." + output)), outputs.get(i));
        }
    }

    private static void assertClose(Tensor expected, OnnxRuntimeOracle.Output actual) {
        assertTrue(actual.type().endsWith(Arrays.toString(expected.shape().toArray())), actual.type());
        ByteBuffer bytes = actual.bytes().order(ByteOrder.nativeOrder());
        boolean half = expected.dtype() == DType.F16;
        for (int i = 0; i < expected.shape().elementCount(); i++) {
            float e = half
                    ? Float.float16ToFloat(expected.bytes().get(Tensor.I16_LE, 2L * i))
                    : expected.bytes().get(Tensor.F32_LE, 4L * i);
            float a = half ? Float.float16ToFloat(bytes.getShort(2 * i)) : bytes.getFloat(4 * i);
            if (e != a) {
                assertEquals(e, a, half ? F16_ERROR : F32_ERROR, "element " + i);
            }
        }
    }

    @Test
    void layers_share_their_mask() {
        List<Node> nodes = new ArrayList<>();
        for (int layer = 0; layer < 3; layer++) {
            String x = layer == 0 ? "x" : "y" + (layer - 1);
            nodes.add(Node.of("a" + layer, "Attention", List.of(x, x, x, "mask"), List.of("y" + layer))
                    .with(Attribute.of("is_causal", 1L)));
        }
        List<Dim> four = List.of(Dim.of("batch"), Dim.of(2), Dim.of("sequence"), Dim.of(8));
        GraphModel model = GraphModel.of(
                Graph.of(
                        "g",
                        nodes,
                        List.of(),
                        List.of(
                                new ValueInfo("x", new TensorType(DType.F32, four)),
                                new ValueInfo(
                                        "mask",
                                        new TensorType(
                                                DType.BOOL,
                                                List.of(Dim.of("batch"), Dim.of(1), Dim.of(1), Dim.of("sequence"))))),
                        List.of(new ValueInfo("y2", new TensorType(DType.F32, four)))),
                11,
                23);
        List<Node> written = OpsetDecompositions.apply(model, 21).graph().nodes();
        assertEquals(3, written.stream().filter(n -> n.is("Softmax")).count());
        assertEquals(1, written.stream().filter(n -> n.is("And")).count());
        assertEquals(1, written.stream().filter(n -> n.is("ReduceMax")).count());
    }

    @Test
    void a_model_that_is_old_enough_comes_back_as_it_is() {
        GraphModel model = model(List.of(node("Relu")), DType.F32, 21);
        assertSame(model, OpsetDecompositions.apply(model, 21));
    }

    @Test
    void a_model_of_old_operators_changes_its_numbers_only() {
        GraphModel model = model(List.of(node("Relu")), DType.F32, 28);
        GraphModel written = OpsetDecompositions.apply(model, 21);
        assertEquals(21, written.opset());
        assertEquals(10, written.irVersion());
        assertEquals(model.graph().nodes(), written.graph().nodes());
    }

    @ParameterizedTest
    @ValueSource(strings = {"TensorScatter", "BitCast", "CumProd", "CausalConvWithState", "LinearAttention", "SwiGLU"})
    void a_later_operator_that_nothing_older_is_known_for_is_refused_by_name(String op) {
        assertRefused(op + " came with opset", node(op), DType.F32);
    }

    static List<Arguments> later() {
        return List.of(
                Arguments.of(
                        "has the attribute round_mode, which came with opset 24",
                        node("Cast").with(Attribute.of("round_mode", "up")),
                        DType.F32),
                Arguments.of("works on BF16, which it does from opset 22 on", node("Softplus"), DType.BF16),
                Arguments.of("'y' is F8_E8M0, which came with opset 24", cast(DType.F8_E8M0), DType.F32),
                Arguments.of("'x' is F4_E2M1, which came with opset 23", node("Identity"), DType.F4_E2M1),
                Arguments.of("has three axes and no num_heads", rotary(), DType.F32),
                Arguments.of("has 0 heads of q for 0 of k and v", attention(), DType.F32),
                Arguments.of("operator Attention works on I32", attention(), DType.I32));
    }

    @ParameterizedTest
    @MethodSource("later")
    void what_has_no_older_form_is_refused_with_the_reason(String reason, Node node, DType x) {
        assertRefused(reason, node, x);
    }

    @Test
    void in_a_subgraph_nothing_is_replaced_but_refused() {
        Graph body = Graph.of("body", List.of(node("Swish")), List.of(), List.of(), List.of());
        Node branch = Node.of("if", "If", List.of("c"), List.of("z"))
                .with(new Attribute("then_branch", new Attribute.OfGraph(body)));
        assertRefused("operator Swish came with opset 24, and is in a subgraph of node 'if'", branch, DType.F32);
    }

    @Test
    void in_a_function_nothing_is_replaced_but_refused() {
        Function f = new Function(
                "local",
                "F",
                "",
                List.of("x"),
                List.of("y"),
                List.of(),
                List.of(),
                List.of(node("RMSNormalization")),
                Map.of("", 23L),
                Map.of(),
                "",
                Map.of(),
                Bytes.EMPTY);
        GraphModel model = model(List.of(node("Relu")), DType.F32, 23).withFunctions(List.of(f));
        UnsupportedModelException e =
                assertThrows(UnsupportedModelException.class, () -> OpsetDecompositions.apply(model, 21));
        assertTrue(e.what().contains("RMSNormalization came with opset 23, and is in function local.F"), e.what());
    }

    private static void assertRefused(String reason, Node node, DType x) {
        GraphModel model = model(List.of(node), x, 28);
        UnsupportedModelException e =
                assertThrows(UnsupportedModelException.class, () -> OpsetDecompositions.apply(model, 21));
        assertTrue(e.what().contains(reason), e.what());
        assertTrue(e.where().contains("'"), e.where());
    }

    private static Node node(String op) {
        return Node.of("n", op, List.of("x"), List.of("y"));
    }

    private static Node cast(DType to) {
        return node("Cast").with(Attribute.of("to", to.onnxId()));
    }

    private static Node rotary() {
        return Node.of("n", "RotaryEmbedding", List.of("x", "x", "x"), List.of("y"));
    }

    private static Node attention() {
        return Node.of("n", "Attention", List.of("x", "x", "x"), List.of("y"));
    }

    private static GraphModel model(List<Node> nodes, DType x, long opset) {
        TensorType type = new TensorType(x, List.of(Dim.of("batch"), Dim.of("sequence"), Dim.of(8)));
        Graph g = Graph.of("g", nodes, List.of(), List.of(new ValueInfo("x", type)), List.of(new ValueInfo("y", null)));
        return GraphModel.of(g, 13, opset);
    }

    @Test
    void names_are_in_order_and_without_repetition() {
        List<String> names = OpsetDecompositions.names();
        assertEquals(names.stream().sorted().distinct().toList(), names);
    }
}
