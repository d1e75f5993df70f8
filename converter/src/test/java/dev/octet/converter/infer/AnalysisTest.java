package dev.octet.converter.infer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Bytes;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.Arena;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class AnalysisTest {
    private static final long OPSET = 21;

    private static ValueInfo value(String name, DType dtype, String dims) {
        List<Dim> list = dims.isEmpty()
                ? List.of()
                : Arrays.stream(dims.split(" "))
                        .map(d ->
                                d.equals("?") ? Dim.UNKNOWN : d.matches("\\d+") ? Dim.of(Long.parseLong(d)) : Dim.of(d))
                        .toList();
        return new ValueInfo(name, new TensorType(dtype, list));
    }

    private static Initializer longs(String name, long... values) {
        return Initializer.of(Tensor.ofLongs(Arena.ofAuto(), name, Shape.of(values.length), values));
    }

    private static Analysis analyse(List<ValueInfo> inputs, List<Initializer> constants, Node... nodes) {
        return Analysis.of(Graph.of("g", List.of(nodes), constants, inputs, List.of()), OPSET, null);
    }

    private static String dims(Analysis a, String name) {
        List<Dim> dims = a.dims(name);
        return dims == null ? "no rank" : dims.toString();
    }

    private static Node node(String op, String inputs, Attribute... attributes) {
        return Node.of("n", op, List.of(inputs.split(" ")), List.of("y"), attributes);
    }

    @ParameterizedTest(name = "{0} of [{1}] and [{2}] is {3}")
    @CsvSource({
        "Add, b s 4, 4, '[b, s, 4]'",
        "Add, b 1 4, 3 1, '[b, 3, 4]'",
        "Add, b, c, [?]",
        "Add, b, 5, [5]",
        "Add, 0, 1, [0]",
        "Mul, '', 2 b, '[2, b]'",
        "Pow, b 2, '', '[b, 2]'",
        "MatMul, b s 4, 4 6, '[b, s, 6]'",
        "MatMul, b h s 4, b h 4 s, '[b, h, s, s]'",
        "MatMul, 4, 4 6, [6]",
        "MatMul, 3 4, 4, [3]",
        "MatMul, b ? 4, ? 6, '[b, ?, 6]'",
        "Gemm, b 4, 4 6, '[b, 6]'",
        "Gather, 30 8, b s, '[b, s, 8]'",
    })
    void two_operands(String op, String a, String b, String expected) {
        DType second = op.equals("Gather") ? DType.I64 : DType.F32;
        Analysis analysis =
                analyse(List.of(value("a", DType.F32, a), value("b", second, b)), List.of(), node(op, "a b"));
        assertEquals(expected, dims(analysis, "y"));
        assertEquals(DType.F32, analysis.dtype("y"));
    }

    @Test
    void a_shape_computed_by_the_graph_reaches_reshape_with_its_symbols() {
        // The way TorchScript splits heads: Reshape(x, Concat(Shape(x)[0], Shape(x)[1], 12, 32))
        Analysis a = analyse(
                List.of(value("x", DType.F32, "batch seq 384")),
                List.of(
                        longs("axes", 0),
                        longs("rest", 12, 32),
                        Initializer.of(Tensor.ofLongs(Arena.ofAuto(), "zero", Shape.SCALAR, 0)),
                        Initializer.of(Tensor.ofLongs(Arena.ofAuto(), "one", Shape.SCALAR, 1))),
                Node.of("s", "Shape", List.of("x"), List.of("shape")),
                Node.of("g0", "Gather", List.of("shape", "zero"), List.of("b0")),
                Node.of("u0", "Unsqueeze", List.of("b0", "axes"), List.of("b")),
                Node.of("g1", "Gather", List.of("shape", "one"), List.of("s0")),
                Node.of("u1", "Unsqueeze", List.of("s0", "axes"), List.of("q")),
                Node.of("c", "Concat", List.of("b", "q", "rest"), List.of("target"), Attribute.of("axis", 0)),
                Node.of("r", "Reshape", List.of("x", "target"), List.of("heads")),
                Node.of(
                        "t",
                        "Transpose",
                        List.of("heads"),
                        List.of("y"),
                        Attribute.of("perm", List.of(0L, 2L, 1L, 3L))));
        assertEquals("[batch, seq, 12, 32]", dims(a, "heads"));
        assertEquals("[batch, 12, seq, 32]", dims(a, "y"));
        assertEquals("I64 [4] {batch, seq, 12, 32}", String.valueOf(a.value("target")));
    }

    @ParameterizedTest(name = "[{0}] reshaped to [{1}] is {2}")
    @CsvSource({
        "b s 12 32, 0 0 -1, '[b, s, 384]'",
        "b s 12 32, -1 384, '[?, 384]'",
        "b 12 32, -1 384, '[b, 384]'",
        "2 3 4, -1, [24]",
        "? 4, 0 -1, '[?, ?]'",
        "b 0, 5 -1, '[5, ?]'",
    })
    void reshapes(String from, String to, String expected) {
        long[] target = Arrays.stream(to.split(" ")).mapToLong(Long::parseLong).toArray();
        Analysis a = analyse(List.of(value("x", DType.F32, from)), List.of(longs("t", target)), node("Reshape", "x t"));
        assertEquals(expected, dims(a, "y"));
    }

    @Test
    void contradictions_are_refused_with_the_node() {
        List<ValueInfo> in = List.of(value("x", DType.F32, "2 3"), value("z", DType.F32, "4 5"));
        for (Node n : List.of(
                node("Add", "x z"),
                node("MatMul", "x z"),
                node("Concat", "x z", Attribute.of("axis", 0)),
                node("Transpose", "x", Attribute.of("perm", List.of(0L, 0L))),
                node("Softplus", "x").withOutputs(List.of("declared")),
                node("Flatten", "x", Attribute.of("axis", 3)),
                node("ReduceSum", "x axes"),
                node("Unsqueeze", "x axes"),
                node("Squeeze", "x one"),
                node("Reshape", "x axes"),
                node("Gather", "x z", Attribute.of("axis", 2)),
                node("Expand", "x shape"),
                node("Gemm", "x z"))) {
            Graph g = new Graph(
                    "g",
                    List.of(n),
                    Map.of("axes", longs("axes", 7), "one", longs("one", 1), "shape", longs("shape", 5, 5)),
                    in,
                    List.of(),
                    Map.of("declared", value("declared", DType.I64, "2 3")),
                    "",
                    Map.of(),
                    Bytes.EMPTY);
            MalformedModelException e =
                    assertThrows(MalformedModelException.class, () -> Analysis.of(g, OPSET, null), n.toString());
            assertTrue(e.where().contains("node n"), e.where());
        }
    }

    @Test
    void a_stale_declaration_of_a_shape_is_doubted_and_not_believed() {
        Graph g = new Graph(
                "g",
                List.of(node("Relu", "x")),
                Map.of(),
                List.of(value("x", DType.F32, "batch 3")),
                List.of(),
                Map.of("y", value("y", DType.F32, "1 4")),
                "",
                Map.of(),
                Bytes.EMPTY);
        Analysis a = Analysis.of(g, OPSET, null);
        assertEquals("[batch, 3]", dims(a, "y"));
        assertEquals(1, a.doubts().size());
    }

    @Test
    void unknown_operators_give_unknown_types_and_stop_nothing() {
        Analysis a = analyse(
                List.of(value("x", DType.F32, "b 3")),
                List.of(),
                Node.of("odd", "Frobnicate", "com.example", List.of("x"), List.of("z")),
                Node.of("next", "Add", List.of("z", "x"), List.of("y")),
                Node.of("last", "Cast", List.of("y"), List.of("c"), Attribute.of("to", 7)));
        assertNull(a.type("z"));
        assertNull(a.dims("y"));
        assertEquals(DType.I64, a.dtype("c"));
    }

    @Test
    void canonical_operators_have_types() {
        Initializer w = Initializer.of(Tensor.ofFloats(Arena.ofAuto(), "w", Shape.of(2, 3), 1, 2, 3, 4, 5, 6));
        Analysis a = analyse(
                List.of(value("x", DType.F32, "b s 3")),
                List.of(w),
                Node.of("l", "Linear", Node.OCTET_DOMAIN, List.of("x", "w"), List.of("h"), Attribute.of("transB", 1)),
                Node.of("g", "Gelu", Node.OCTET_DOMAIN, List.of("h"), List.of("y")));
        assertEquals("[b, s, 2]", dims(a, "y"));
        assertNull(a.value("w"), "weights are parameters, not arithmetic");
        assertNotNull(a.constant("w"));
    }

    @Test
    void an_initializer_that_is_an_input_too_is_no_constant() {
        Analysis a = analyse(List.of(value("c", DType.I64, "1")), List.of(longs("c", 5)), node("Identity", "c"));
        assertNull(a.value("c"));
        assertNull(a.value("y"));
    }

    @Test
    void hostile_sizes_stay_unknown_instead_of_being_made() {
        Analysis a = analyse(
                List.of(value("x", DType.F32, "2 3")),
                List.of(longs("huge", Long.MAX_VALUE, Long.MAX_VALUE), longs("one", 1)),
                node("ConstantOfShape", "huge"),
                Node.of("m", "Tile", List.of("x", "huge"), List.of("tiled")),
                Node.of("e", "Expand", List.of("one", "huge"), List.of("expanded")),
                Node.of("p", "Pad", List.of("x", "pads"), List.of("padded")));
        assertEquals("[9223372036854775807, 9223372036854775807]", dims(a, "y"));
        assertEquals("[?, ?]", dims(a, "tiled"));
        assertNull(a.value("y"));
        assertNull(a.value("expanded"));
    }

    @Test
    void zero_sizes_are_sizes() {
        Analysis a = analyse(
                List.of(value("x", DType.F32, "0 3"), value("z", DType.F32, "b 3")),
                List.of(longs("t", 0, -1)),
                Node.of("c", "Concat", List.of("x", "z"), List.of("y"), Attribute.of("axis", 0)),
                Node.of("r", "Reshape", List.of("x", "t"), List.of("q")),
                Node.of("s", "ReduceSum", List.of("x"), List.of("sum"), Attribute.of("keepdims", 0)));
        assertEquals("[b, 3]", dims(a, "y"));
        assertEquals("[0, ?]", dims(a, "q"));
        assertEquals("[]", dims(a, "sum"));
    }
}
