package dev.octet.converter.expand;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ai.onnxruntime.OrtException;
import dev.octet.converter.infer.Analysis;
import dev.octet.converter.pass.OnnxRuntimeOracle;
import dev.octet.formats.ModelFile;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
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
import java.util.Objects;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Operators that took further number types after opset 21, and pools that leave windows out: what is written is what ONNX expects of them. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class LaterTypesTest {
    private static final Path CASES =
            Path.of(System.getProperty("octet.testdata"), "models/opset23/later_types.safetensors");
    /** One rounding to F16 of numbers up to 8: half of 2^-7. */
    private static final double F16_ERROR = 1.0 / 256;

    /** Some of ONNX's expected outputs are written with four decimals. */
    private static final double F32_ERROR = 1e-4;

    static List<Arguments> cases() throws IOException {
        try (ModelFile all = ModelFile.open(CASES)) {
            return all.model().tensors().keySet().stream()
                    .filter(n -> n.endsWith("/model"))
                    .map(n -> n.substring(0, n.indexOf('/')))
                    .sorted()
                    .flatMap(n -> Stream.of(Arguments.of(n, 21), Arguments.of(n, 23)))
                    .toList();
        }
    }

    @ParameterizedTest
    @MethodSource("cases")
    void a_node_gives_what_ONNX_expects_of_it(String name, int opset, @TempDir Path folder)
            throws IOException, OrtException {
        try (ModelFile all = ModelFile.open(CASES)) {
            Path onnx = folder.resolve("case.onnx");
            Files.write(onnx, tensor(all, name + "/model").bytes().toArray(ValueLayout.JAVA_BYTE));
            GraphModel model = OnnxReader.read(onnx, Arena.ofAuto());
            GraphModel written = OpsetDecompositions.apply(model, opset);
            Analysis analysis = Analysis.of(written);
            LaterOpsets later = new LaterOpsets(opset);
            written.graph().nodes().forEach(n -> assertEquals(null, later.problem(n, analysis)));
            List<Tensor> inputs = new ArrayList<>();
            for (ValueInfo v : model.graph().inputs()) {
                Tensor t = tensor(all, name + "/in." + v.name());
                inputs.add(new Tensor(new TensorSpec(v.name(), t.dtype(), t.shape()), t.bytes()));
            }
            OnnxRuntimeOracle.Output output =
                    OnnxRuntimeOracle.run(written, inputs, folder).getFirst();
            assertClose(
                    tensor(
                            all,
                            name + "/out." + model.graph().outputs().getFirst().name()),
                    output);
        }
    }

    private static Tensor tensor(ModelFile file, String name) {
        return Objects.requireNonNull(file.model().tensors().get(name), name);
    }

    private static void assertClose(Tensor expected, OnnxRuntimeOracle.Output actual) {
        assertTrue(actual.type().endsWith(Arrays.toString(expected.shape().toArray())), actual.type());
        ByteBuffer bytes = actual.bytes().order(ByteOrder.nativeOrder());
        for (int i = 0; i < expected.shape().elementCount(); i++) {
            switch (expected.dtype()) {
                case F16 ->
                    assertEquals(
                            Float.float16ToFloat(expected.bytes().get(Tensor.I16_LE, 2L * i)),
                            Float.float16ToFloat(bytes.getShort(2 * i)),
                            F16_ERROR);
                case F32 -> assertEquals(expected.bytes().get(Tensor.F32_LE, 4L * i), bytes.getFloat(4 * i), F32_ERROR);
                case F64 -> assertEquals(expected.bytes().get(Tensor.F64_LE, 8L * i), bytes.getDouble(8 * i), 1e-15);
                default -> {
                    int width = expected.dtype().bits() / 8;
                    for (int b = i * width; b < (i + 1) * width; b++) {
                        assertEquals(expected.bytes().get(ValueLayout.JAVA_BYTE, b), bytes.get(b), "element " + i);
                    }
                }
            }
        }
    }

    private static GraphModel one(Node node, DType x, Dim... dims) {
        TensorType type = new TensorType(x, List.of(dims));
        return GraphModel.of(
                Graph.of(
                        "g",
                        List.of(node),
                        List.of(),
                        List.of(new ValueInfo("x", type)),
                        List.of(new ValueInfo("y", null))),
                13,
                28);
    }

    private static Node pool(String op, long padEnd, Attribute... more) {
        Node n = Node.of("n", op, List.of("x"), List.of("y"), more);
        return n.with(Attribute.of("ceil_mode", 1L))
                .with(Attribute.of("kernel_shape", List.of(2L, 2L)))
                .with(Attribute.of("strides", List.of(3L, 3L)))
                .with(Attribute.of("pads", List.of(1L, 0L, padEnd, 0L)));
    }

    private static void assertRefused(String reason, GraphModel model) {
        UnsupportedModelException e =
                assertThrows(UnsupportedModelException.class, () -> OpsetDecompositions.apply(model, 21));
        assertTrue(e.what().contains(reason), e.what());
    }

    @Test
    void a_mean_that_would_count_more_padding_is_refused() {
        assertRefused(
                "AveragePool leaves out windows that start in the padding",
                one(
                        pool("AveragePool", 1, Attribute.of("count_include_pad", 1L)),
                        DType.F32,
                        Dim.of("batch"),
                        Dim.of(2),
                        Dim.of(4),
                        Dim.of(7)));
    }

    @Test
    void a_pool_of_bf16_is_refused_whatever_its_windows() {
        assertRefused(
                "MaxPool works on BF16",
                one(pool("MaxPool", 1), DType.BF16, Dim.of("batch"), Dim.of(2), Dim.of(4), Dim.of(7)));
    }

    @Test
    void pools_of_unknown_size_and_such_without_windows_in_the_padding_stay() {
        for (GraphModel model : List.of(
                one(pool("MaxPool", 1), DType.F32, Dim.of("batch"), Dim.of(2), Dim.of("height"), Dim.of(7)),
                one(pool("MaxPool", 0), DType.F32, Dim.of("batch"), Dim.of(2), Dim.of(4), Dim.of(7)))) {
            assertEquals(
                    model.graph().nodes(),
                    OpsetDecompositions.apply(model, 21).graph().nodes());
        }
    }

    @Test
    void a_range_that_adds_in_f16_is_refused_and_the_attribute_goes_where_it_means_nothing() {
        Node range = Node.of("n", "Range", List.of("x", "x", "x"), List.of("y"), Attribute.of("stash_type", 10L));
        assertRefused("Range has the attribute stash_type", one(range, DType.F16));
        Node written = OpsetDecompositions.apply(one(range, DType.F32), 21)
                .graph()
                .nodes()
                .getFirst();
        assertTrue(written.is("Range") && written.attributes().isEmpty(), written.toString());
    }
}
