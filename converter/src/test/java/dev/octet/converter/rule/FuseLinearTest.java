package dev.octet.converter.rule;

import static dev.octet.converter.rule.Sketch.sketch;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.lang.foreign.Arena;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class FuseLinearTest {
    private static Sketch x3d() {
        return sketch().input("x", DType.F32, 2, 5, 3).output("y");
    }

    private static Node only(FusePatterns.Result result) {
        assertEquals(List.of(), result.refusals());
        assertEquals(
                1,
                result.model().graph().nodes().size(),
                () -> result.model().graph().nodes().toString());
        Node n = result.model().graph().nodes().getFirst();
        assertTrue(n.isOctet("Linear"), n::toString);
        return n;
    }

    private static void refused(FusePatterns.Result result, String reason) {
        assertEquals(Map.of(), result.fused());
        assertEquals(1, result.refusals().size(), () -> "refusals: " + result.refusals());
        assertTrue(
                result.refusals().getFirst().reason().contains(reason),
                () -> result.refusals().toString());
    }

    @ParameterizedTest
    @ValueSource(strings = {"b mm", "mm b"})
    void a_product_with_a_constant_and_an_Add_on_either_side_is_a_Linear(String sides) {
        Node n = only(x3d().weight("w", 3, 4)
                .weight("b", 4)
                .node("/layer.0/query/MatMul", "MatMul", "x w", "mm")
                .node("/layer.0/query/Add", "Add", sides, "y")
                .fuse());
        assertEquals(List.of("x", "w", "b"), n.inputs());
        assertEquals(List.of("y"), n.outputs());
        assertEquals("/layer.0/query", n.name());
        assertEquals(0, n.intAttribute("transB", -1));
    }

    @Test
    void the_model_imports_the_domain_of_the_canonical_operators() {
        GraphModel model =
                x3d().weight("w", 3, 4).node("m", "MatMul", "x w", "y").fuse().model();
        assertEquals(1, model.opsets().get(Node.OCTET_DOMAIN));
        assertEquals(17, model.opset());
    }

    @Test
    void a_product_without_an_Add_is_a_Linear_without_bias() {
        Node n = only(x3d().weight("w", 3, 4).node("m", "MatMul", "x w", "y").fuse());
        assertEquals(List.of("x", "w"), n.inputs());
        assertEquals("m", n.name());
    }

    @Test
    void an_Add_of_what_is_no_bias_stays() {
        for (String other : List.of("x2", "row", "one", "scalar")) {
            FusePatterns.Result result = x3d().input("x2", DType.F32, 2, 5, 4)
                    .weight("w", 3, 4)
                    .weight("row", 1, 4)
                    .weight("one", 1)
                    .scalar("scalar", 2)
                    .node("m", "MatMul", "x w", "mm")
                    .node("a", "Add", "mm " + other, "y")
                    .fuse();
            assertEquals(
                    List.of("Linear", "Add"),
                    result.model().graph().nodes().stream().map(Node::opType).toList());
            assertEquals(2, result.model().graph().nodes().getFirst().inputs().size());
        }
    }

    @Test
    void a_product_that_is_an_output_itself_keeps_its_Add() {
        FusePatterns.Result result = x3d().output("mm")
                .weight("w", 3, 4)
                .weight("b", 4)
                .node("m", "MatMul", "x w", "mm")
                .node("a", "Add", "mm b", "y")
                .fuse();
        assertEquals(
                List.of("Linear", "Add"),
                result.model().graph().nodes().stream().map(Node::opType).toList());
    }

    @Test
    void a_product_of_two_computed_values_is_attention_and_not_even_refused() {
        FusePatterns.Result result = sketch().input("q", DType.F32, 2, 5, 3)
                .input("k", DType.F32, 2, 5, 3)
                .output("y")
                .node("t", "Transpose", "k", "kt", Attribute.of("perm", List.of(0L, 2L, 1L)))
                .node("m", "MatMul", "q kt", "y")
                .fuse();
        assertEquals(Map.of(), result.fused());
        assertEquals(List.of(), result.refusals());
    }

    @Test
    void a_model_without_any_pattern_comes_back_as_it_is() {
        GraphModel model = x3d().node("r", "Relu", "x", "y").model();
        assertSame(model, new FusePatterns().fuse(model).model());
    }

    @Test
    void a_transposed_constant_is_read_untransposed() {
        Node n = only(x3d().weight("w", 4, 3)
                .node("t", "Transpose", "w", "wt", Attribute.of("perm", List.of(1L, 0L)))
                .node("m", "MatMul", "x wt", "y")
                .fuse());
        assertEquals(List.of("x", "w"), n.inputs());
        assertEquals(1, n.intAttribute("transB", -1));
    }

    @Test
    void a_transposed_constant_that_others_read_too_keeps_its_Transpose() {
        Graph g = x3d().output("wt")
                .weight("w", 4, 3)
                .node("t", "Transpose", "w", "wt", Attribute.of("perm", List.of(1L, 0L)))
                .node("m", "MatMul", "x wt", "y")
                .fuse()
                .model()
                .graph();
        assertEquals(
                List.of("Transpose", "Linear"),
                g.nodes().stream().map(Node::opType).toList());
    }

    @Test
    void identities_between_constant_and_product_are_seen_through() {
        Node n = only(x3d().weight("w", 3, 4)
                .weight("b", 4)
                .node("i", "Identity", "w", "w1")
                .node("i2", "Identity", "w1", "w2")
                .node("i3", "Identity", "b", "b1")
                .node("m", "MatMul", "x w2", "mm")
                .node("a", "Add", "mm b1", "y")
                .fuse());
        assertEquals(List.of("x", "w", "b"), n.inputs());
    }

    @Test
    void a_constant_node_becomes_an_initializer() {
        FusePatterns.Result result = x3d().node(
                        "c", "Constant", "", "w", Attribute.of("value", Initializer.of(Sketch.ramp("", 3, 4))))
                .node("m", "MatMul", "x w", "y")
                .fuse();
        assertEquals(List.of("x", "w"), only(result).inputs());
        assertNotNull(result.model().graph().initializers().get("w"));
    }

    @Test
    void a_half_precision_constant_cast_to_F32_is_widened_exactly() {
        Tensor half = Tensor.allocate(Arena.ofAuto(), new TensorSpec("w", DType.F16, Shape.of(3, 1)));
        half.bytes().setAtIndex(Tensor.I16_LE, 0, Float.floatToFloat16(0.1f));
        half.bytes().setAtIndex(Tensor.I16_LE, 1, Float.floatToFloat16(-65504));
        half.bytes().setAtIndex(Tensor.I16_LE, 2, (short) 1);
        FusePatterns.Result result = x3d().constant(Initializer.of(half))
                .node("c", "Cast", "w", "w32", Attribute.of("to", DType.F32.onnxId()))
                .node("m", "MatMul", "x w32", "y")
                .fuse();
        Node n = only(result);
        Graph g = result.model().graph();
        assertEquals(List.of(n.input(1)), List.copyOf(g.initializers().keySet()));
        assertArrayEquals(
                new float[] {Float.float16ToFloat(Float.floatToFloat16(0.1f)), -65504, 0x1p-24f},
                Sketch.tensor(g, n.input(1)).toFloats());
    }

    @Test
    void a_constant_narrowed_on_its_way_is_refused() {
        refused(
                x3d().weight("w", 3, 4)
                        .node("c", "Cast", "w", "w16", Attribute.of("to", DType.F16.onnxId()))
                        .node("m", "MatMul", "x w16", "y")
                        .fuse(),
                "is cast from F32 to F16");
        refused(
                x3d().weight("w", 3, 4)
                        .node("c", "Cast", "w", "w16", Attribute.of("to", DType.F16.onnxId()))
                        .node("d", "Cast", "w16", "w32", Attribute.of("to", DType.F32.onnxId()))
                        .node("m", "MatMul", "x w32", "y")
                        .fuse(),
                "cast more than once");
    }

    @Test
    void a_quantised_constant_is_refused() {
        refused(
                x3d().weight("w", 3, 4)
                        .scalar("s", 1)
                        .node("d", "DequantizeLinear", "w s", "wd")
                        .node("m", "MatMul", "x wd", "y")
                        .fuse(),
                "'w' is quantised already");
    }

    @Test
    void a_constant_of_another_rank_or_type_is_refused() {
        refused(x3d().weight("w", 2, 3, 4).node("m", "MatMul", "x w", "y").fuse(), "not 2-D: [2, 3, 4]");
        refused(x3d().weight("w", 3).node("m", "MatMul", "x w", "y").fuse(), "not 2-D: [3]");
        Tensor f64 = Tensor.allocate(Arena.ofAuto(), new TensorSpec("w", DType.F64, Shape.of(3, 4)));
        refused(
                x3d().constant(Initializer.of(f64))
                        .node("m", "MatMul", "x w", "y")
                        .fuse(),
                "is F64");
    }

    @Test
    void a_constant_that_callers_may_override_is_refused_from_IR_4_on() {
        refused(
                x3d().input("w", DType.F32, 3, 4)
                        .weight("w", 3, 4)
                        .node("m", "MatMul", "x w", "y")
                        .fuse(),
                "callers may override");
        only(x3d().irVersion(3)
                .input("w", DType.F32, 3, 4)
                .weight("w", 3, 4)
                .node("m", "MatMul", "x w", "y")
                .fuse());
    }

    @ParameterizedTest
    @ValueSource(longs = {0, 1})
    void a_Gemm_with_a_constant_is_a_Linear(long transB) {
        Sketch s = sketch().input("x", DType.F32, 5, 3).output("y").weight("b", 4);
        Node n = only((transB == 0 ? s.weight("w", 3, 4) : s.weight("w", 4, 3))
                .node(
                        "/classifier/Gemm",
                        "Gemm",
                        "x w b",
                        "y",
                        Attribute.of("transB", transB),
                        Attribute.of("alpha", 1f))
                .fuse());
        assertEquals(List.of("x", "w", "b"), n.inputs());
        assertEquals(transB, n.intAttribute("transB", -1));
        assertEquals("/classifier", n.name());
    }

    @Test
    void a_Gemm_of_a_transposed_constant_transposes_it_once() {
        Node n = only(sketch().input("x", DType.F32, 5, 3)
                .output("y")
                .weight("w", 3, 4)
                .node("t", "Transpose", "w", "wt")
                .node("g", "Gemm", "x wt", "y", Attribute.of("transB", 1))
                .fuse());
        assertEquals(0, n.intAttribute("transB", -1));
    }

    @Test
    void a_Gemm_bias_of_one_row_is_stored_flat() {
        FusePatterns.Result result = sketch().input("x", DType.F32, 5, 3)
                .output("y")
                .weight("w", 3, 4)
                .weight("b", 1, 4)
                .node("g", "Gemm", "x w b", "y")
                .fuse();
        Node n = only(result);
        Tensor b = Sketch.tensor(result.model().graph(), n.input(2));
        assertEquals(Shape.of(4), b.shape());
        assertArrayEquals(Sketch.ramp("b", 4).toFloats(), b.toFloats());
    }

    @Test
    void a_Gemm_that_does_more_than_a_Linear_is_refused() {
        for (Attribute a : List.of(Attribute.of("alpha", 2f), Attribute.of("beta", 0.5f))) {
            refused(gemm("b", a), "alpha and beta");
        }
        refused(gemm("b", Attribute.of("transA", 1)), "transposed");
        refused(gemm("column"), "bias 'column' is not a constant of shape [4]");
        refused(gemm("c"), "bias 'c' is not a constant of shape [4]");
    }

    private static FusePatterns.Result gemm(String bias, Attribute... attributes) {
        return sketch().input("x", DType.F32, 3, 3)
                .input("c", DType.F32, 4)
                .output("y")
                .weight("w", 3, 4)
                .weight("b", 4)
                .weight("column", 3, 1)
                .node("g", "Gemm", "x w " + bias, "y", attributes)
                .fuse();
    }

    @Test
    void a_Gemm_without_bias_may_have_any_beta() {
        Node n = only(gemm("", Attribute.of("beta", 0f)));
        assertEquals(2, n.inputs().size());
    }

    @Test
    void a_Gemm_between_Reshapes_stays_between_them() {
        FusePatterns.Result result = x3d().longs("flat", -1, 3)
                .longs("back", 2, 5, 4)
                .weight("w", 3, 4)
                .weight("b", 4)
                .node("r", "Reshape", "x flat", "x2")
                .node("g", "Gemm", "x2 w b", "y2")
                .node("r2", "Reshape", "y2 back", "y")
                .fuse();
        assertEquals(
                List.of("Reshape", "Linear", "Reshape"),
                result.model().graph().nodes().stream().map(Node::opType).toList());
    }

    @Test
    void one_constant_may_serve_two_Linears_and_an_embedding() {
        Graph g = x3d().output("z")
                .output("e")
                .input("ids", DType.I64, 2)
                .input("x4", DType.F32, 2, 4)
                .weight("w", 3, 4)
                .node("t", "Transpose", "w", "wt")
                .node("m", "MatMul", "x w", "y")
                .node("m2", "MatMul", "x4 wt", "z")
                .node("g", "Gather", "w ids", "e")
                .fuse()
                .model()
                .graph();
        assertEquals(
                List.of("Linear", "Linear", "Gather"),
                g.nodes().stream().map(Node::opType).toList());
        assertEquals(
                List.of(0L, 1L),
                g.nodes().stream()
                        .limit(2)
                        .map(n -> n.intAttribute("transB", -1))
                        .toList());
        assertEquals(List.of("w"), List.copyOf(g.initializers().keySet()));
    }

    @Test
    void two_nodes_of_one_module_get_two_names() {
        Graph g = x3d().output("z")
                .weight("w", 3, 4)
                .node("/m/MatMul", "MatMul", "x w", "y")
                .node("/m/MatMul_1", "MatMul", "x w", "z")
                .fuse()
                .model()
                .graph();
        assertEquals(List.of("/m", "/m_1"), g.nodes().stream().map(Node::name).toList());
    }

    @Test
    void a_weight_of_a_module_inside_names_the_node() {
        Node n = only(x3d().weight("m.attn.out_proj.weight", 3, 4)
                .node("/m/attn/MatMul", "MatMul", "x m.attn.out_proj.weight", "y")
                .fuse());
        assertEquals("/m/attn/out_proj", n.name());
        Node same = only(x3d().weight("m.attn.weight", 3, 4)
                .node("/m/attn/MatMul", "MatMul", "x m.attn.weight", "y")
                .fuse());
        assertEquals("/m/attn", same.name());
    }

    @Test
    void dynamo_metadata_names_the_node_as_TorchScript_would() {
        Node matmul = Node.of("node_MatMul_59", "MatMul", List.of("x", "w"), List.of("y"))
                .withMetadata(Map.of(
                        "pkg.torch.onnx.name_scopes",
                        "['', 'm', 'm.bert', 'm.bert.encoder.layer.0', 'm.bert.encoder.layer.0.query', 'linear']"));
        Node n = only(x3d().weight("w", 3, 4).node(matmul).fuse());
        assertEquals("/m/bert/encoder.layer.0/query", n.name());
        assertEquals("m.bert.encoder.layer.0.query", n.metadata().get("dev.octet.module"));
        assertTrue(n.metadata().entrySet().containsAll(matmul.metadata().entrySet()));
    }

    @Test
    void convolutions_that_are_products_in_disguise_are_refused_and_others_ignored() {
        Sketch s = sketch().input("x", DType.F32, 1, 3, 8, 8)
                .output("y")
                .weight("w", 5, 3, 4, 4)
                .weight("p", 5, 3, 1, 1);
        refused(
                s.node("c", "Conv", "x w", "y", Attribute.of("strides", List.of(4L, 4L)))
                        .fuse(),
                "patch embedding");
        refused(
                sketch().input("x", DType.F32, 1, 3, 8, 8)
                        .output("y")
                        .weight("p", 5, 3, 1, 1)
                        .node("c", "Conv", "x p", "y")
                        .fuse(),
                "1x1 Conv");
        FusePatterns.Result plain = sketch().input("x", DType.F32, 1, 3, 8, 8)
                .output("y")
                .weight("w", 5, 3, 3, 3)
                .node("c", "Conv", "x w", "y")
                .fuse();
        assertEquals(List.of(), plain.refusals());
    }
}
