package dev.octet.converter.rule;

import static dev.octet.converter.rule.Sketch.sketch;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class FuseLayerNormTest {
    private static final Attribute LAST = Attribute.of("axes", List.of(-1L));
    private static final String PATH = "/encoder/LayerNorm/";

    private static Sketch start() {
        return sketch().input("x", DType.F32, 2, 5, 4)
                .output("y")
                .weight("w", 4)
                .weight("b", 4)
                .scalar("two", 2)
                .scalar("eps", 1e-12)
                .scalar("one", 1)
                .scalar("half", 0.5)
                .scalar("minusHalf", -0.5)
                .longs("axes", -1);
    }

    /** The first half, up to the root {@code s}. */
    private static Sketch deviation(Sketch s) {
        return s.node(PATH + "ReduceMean", "ReduceMean", "x", "mean", LAST)
                .node(PATH + "Sub", "Sub", "x mean", "d")
                .node(PATH + "Pow", "Pow", "d two", "d2")
                .node(PATH + "ReduceMean_1", "ReduceMean", "d2", "var", LAST)
                .node(PATH + "Add", "Add", "var eps", "ve")
                .node(PATH + "Sqrt", "Sqrt", "ve", "s");
    }

    private static Sketch tail(Sketch s) {
        return s.node(PATH + "Div", "Div", "d s", "n")
                .node(PATH + "Mul", "Mul", "n w", "nw")
                .node(PATH + "Add_1", "Add", "nw b", "y");
    }

    private static Node only(FusePatterns.Result result) {
        assertEquals(List.of(), result.refusals());
        assertEquals(List.of("LayerNormalization"), Sketch.ops(result));
        Node n = result.model().graph().nodes().getFirst();
        assertEquals(Node.OCTET_DOMAIN, n.domain());
        assertEquals(-1, n.intAttribute("axis", 0));
        assertEquals(List.of("y"), n.outputs());
        return n;
    }

    private static void refused(Sketch s, String reason) {
        FusePatterns.Result result = s.fuse();
        assertEquals(Map.of(), result.fused());
        assertEquals(1, result.refusals().size(), () -> "refusals: " + result.refusals());
        assertTrue(
                result.refusals().getFirst().reason().contains(reason),
                () -> result.refusals().toString());
    }

    @Test
    void the_decomposed_form_of_TorchScript_is_one_node_named_after_its_module() {
        FusePatterns.Result result = tail(deviation(start())).fuse();
        Node n = only(result);
        assertEquals(List.of("x", "w", "b"), n.inputs());
        assertEquals("/encoder/LayerNorm", n.name());
        assertEquals(1e-12f, n.floatAttribute("epsilon", 0));
        assertTrue(
                Collections.disjoint(result.model().graph().initializers().keySet(), List.of("two", "eps")),
                "the numbers of the pattern are gone");
    }

    @Test
    void numbers_may_be_Constant_nodes_and_axes_an_input() {
        Node n = only(sketch().input("x", DType.F32, 2, 5, 4)
                .output("y")
                .weight("w", 4)
                .weight("b", 4)
                .longs("axes", 2)
                .constantNode("two", 2)
                .constantNode("eps", 1e-5)
                .node("m", "ReduceMean", "x axes", "mean")
                .node("s", "Sub", "x mean", "d")
                .node("p", "Pow", "d two", "d2")
                .node("m2", "ReduceMean", "d2 minus", "var")
                .longs("minus", -1)
                .node("a", "Add", "var eps", "ve")
                .node("q", "Sqrt", "ve", "s")
                .node("v", "Div", "d s", "n")
                .node("w", "Mul", "n w", "nw")
                .node("b", "Add", "nw b", "y")
                .fuse());
        assertEquals(1e-5f, n.floatAttribute("epsilon", 0));
    }

    @ParameterizedTest
    @CsvSource({"var eps,n w,nw b", "eps var,w n,b nw", "var eps,w n,nw b"})
    void sums_and_products_commute(String variance, String scaled, String shifted) {
        only(start().node("m", "ReduceMean", "x", "mean", LAST)
                .node("s", "Sub", "x mean", "d")
                .node("p", "Mul", "d d", "d2")
                .node("m2", "ReduceMean", "d2", "var", LAST)
                .node("a", "Add", variance, "ve")
                .node("q", "Sqrt", "ve", "s")
                .node("v", "Div", "d s", "n")
                .node("w", "Mul", scaled, "nw")
                .node("b", "Add", shifted, "y")
                .fuse());
    }

    @Test
    void the_difference_may_be_computed_twice() {
        only(start().node("m", "ReduceMean", "x", "mean", LAST)
                .node("s", "Sub", "x mean", "d")
                .node("s2", "Sub", "x mean", "dd")
                .node("p", "Pow", "dd two", "d2")
                .node("m2", "ReduceMean", "d2", "var", LAST)
                .node("a", "Add", "var eps", "ve")
                .node("q", "Sqrt", "ve", "s")
                .node("v", "Div", "d s", "n")
                .node("w", "Mul", "n w", "nw")
                .node("b", "Add", "nw b", "y")
                .fuse());
    }

    @ParameterizedTest
    @ValueSource(strings = {"Reciprocal", "Div", "Pow"})
    void the_root_may_be_inverted(String how) {
        Sketch s = start().node("m", "ReduceMean", "x", "mean", LAST)
                .node("s", "Sub", "x mean", "d")
                .node("p", "Pow", "d two", "d2")
                .node("m2", "ReduceMean", "d2", "var", LAST)
                .node("a", "Add", "var eps", "ve");
        switch (how) {
            case "Reciprocal" -> s.node("q", "Sqrt", "ve", "s").node("r", "Reciprocal", "s", "r");
            case "Div" -> s.node("q", "Pow", "ve half", "s").node("r", "Div", "one s", "r");
            default -> s.node("q", "Pow", "ve minusHalf", "r");
        }
        only(s.node("v", "Mul", "d r", "n")
                .node("w", "Mul", "n w", "nw")
                .node("b", "Add", "nw b", "y")
                .fuse());
    }

    @Test
    void the_form_of_TensorFlow_folds_the_weight_into_the_scale() {
        Node n = only(deviation(start())
                .node("r", "Reciprocal", "s", "r")
                .node("rw", "Mul", "r w", "rw")
                .node("xs", "Mul", "x rw", "xs")
                .node("ms", "Mul", "mean rw", "ms")
                .node("bs", "Sub", "b ms", "bs")
                .node("y", "Add", "xs bs", "y")
                .fuse());
        assertEquals(List.of("x", "w", "b"), n.inputs());
    }

    @Test
    void the_bias_may_be_missing() {
        Node n = only(deviation(start())
                .node("v", "Div", "d s", "n")
                .node("w", "Mul", "n w", "y")
                .fuse());
        assertEquals(List.of("x", "w"), n.inputs());
    }

    @Test
    void a_norm_in_F32_inside_an_F16_model_takes_the_F16_value() {
        FusePatterns.Result result = half(DType.F16).fuse();
        assertEquals(List.of("LayerNormalization"), Sketch.ops(result));
        assertEquals(
                List.of("x", "w16", "b16"),
                result.model().graph().nodes().getFirst().inputs());
    }

    @Test
    void types_that_do_not_meet_are_refused() {
        refused(half(DType.F64), "not known to be of one type");
    }

    private static Sketch half(DType x) {
        return sketch().input("x", x, 2, 5, 2)
                .output("y")
                .constant(Initializer.of(Sketch.numbers("w16", DType.F16, 1, 2)))
                .constant(Initializer.of(Sketch.numbers("b16", DType.F16, 1, 2)))
                .scalar("two", 2)
                .scalar("eps", 1e-5)
                .node("c", "Cast", "x", "x32", Attribute.of("to", DType.F32.onnxId()))
                .node("m", "ReduceMean", "x32", "mean", LAST)
                .node("s", "Sub", "x32 mean", "d")
                .node("p", "Pow", "d two", "d2")
                .node("m2", "ReduceMean", "d2", "var", LAST)
                .node("a", "Add", "var eps", "ve")
                .node("q", "Sqrt", "ve", "s")
                .node("v", "Div", "d s", "n")
                .node("c2", "Cast", "n", "n16", Attribute.of("to", DType.F16.onnxId()))
                .node("w", "Mul", "n16 w16", "nw")
                .node("b", "Add", "nw b16", "y");
    }

    @Test
    void a_square_in_F32_inside_an_F16_norm_is_seen_through() {
        FusePatterns.Result result = sketch().input("x", DType.F16, 2, 5, 2)
                .output("y")
                .constant(Initializer.of(Sketch.numbers("w16", DType.F16, 1, 2)))
                .scalar("two", 2)
                .scalar("eps", 1e-5)
                .node("m", "ReduceMean", "x", "mean", LAST)
                .node("s", "Sub", "x mean", "d")
                .node("c", "Cast", "d", "d32", Attribute.of("to", DType.F32.onnxId()))
                .node("p", "Pow", "d32 two", "d2")
                .node("m2", "ReduceMean", "d2", "var", LAST)
                .node("a", "Add", "var eps", "ve")
                .node("q", "Sqrt", "ve", "s")
                .node("c2", "Cast", "s", "s16", Attribute.of("to", DType.F16.onnxId()))
                .node("v", "Div", "d s16", "n")
                .node("w", "Mul", "n w16", "y")
                .fuse();
        assertEquals(List.of("LayerNormalization"), Sketch.ops(result));
    }

    @Test
    void the_operator_itself_changes_its_domain_only() {
        Node n = only(start().node(
                        PATH + "LayerNormalization", "LayerNormalization", "x w b", "y", Attribute.of("epsilon", 1e-6f))
                .fuse());
        assertEquals(List.of("x", "w", "b"), n.inputs());
        assertEquals(1e-6f, n.floatAttribute("epsilon", 0));
        assertEquals("/encoder/LayerNorm", n.name());
    }

    @Test
    void an_operator_that_gives_more_or_normalises_more_is_refused() {
        refused(start().output("mean").node("l", "LayerNormalization", "x w b", "y mean"), "output of its own");
        refused(start().node("l", "LayerNormalization", "x w b", "y", Attribute.of("axis", 1)), "last dimension");
        refused(start().input("v", DType.F32, 4).node("l", "LayerNormalization", "x v b", "y"), "weight 'v'");
        refused(start().input("v", DType.F32, 4).node("l", "LayerNormalization", "x w v", "y"), "bias 'v'");
        refused(start().node("l", "LayerNormalization", "x w b", "y", Attribute.of("stash_type", 10)), "stash_type");
    }

    @ParameterizedTest
    @ValueSource(strings = {"mean", "d", "var", "s", "n", "nw"})
    void an_interior_value_that_is_an_output_forbids_it(String value) {
        FusePatterns.Result result = tail(deviation(start().output(value))).fuse();
        if (value.equals("nw")) { // then the norm is one without bias
            assertEquals(List.of("LayerNormalization", "Add"), Sketch.ops(result));
        } else {
            assertEquals(Map.of(), result.fused());
            assertEquals(1, result.refusals().size());
        }
    }

    @Test
    void an_interior_value_that_others_read_forbids_it_and_both_are_named() {
        refused(
                tail(deviation(start())).output("z").node("spy", "Relu", "mean", "z"),
                "interior value 'mean' is also read by 'spy'");
    }

    @Test
    void other_axes_are_refused() {
        Attribute second = Attribute.of("axes", List.of(1L));
        refused(
                tail(start().node("m", "ReduceMean", "x", "mean", second)
                        .node("s", "Sub", "x mean", "d")
                        .node("p", "Pow", "d two", "d2")
                        .node("m2", "ReduceMean", "d2", "var", second)
                        .node("a", "Add", "var eps", "ve")
                        .node("q", "Sqrt", "ve", "s")),
                "axes of 'm2'");
    }

    @Test
    void an_epsilon_that_is_computed_or_large_is_refused() {
        refused(tail(deviation(noEps().input("eps", DType.F32))), "epsilon 'eps' is not a constant number");
        refused(tail(deviation(noEps().scalar("eps", 0.5))), "epsilon 0.5 is not between 0 and 0.01");
        refused(tail(deviation(noEps().scalar("eps", Double.NaN))), "epsilon NaN");
    }

    private static Sketch noEps() {
        return sketch().input("x", DType.F32, 2, 5, 4)
                .output("y")
                .weight("w", 4)
                .weight("b", 4)
                .scalar("two", 2);
    }

    @Test
    void a_weight_that_is_not_one_vector_is_refused() {
        refused(
                deviation(start().weight("row", 1, 4))
                        .node("v", "Div", "d s", "n")
                        .node("w", "Mul", "n row", "nw")
                        .node("b", "Add", "nw b", "y"),
                "1-D constant weight");
        refused(deviation(start()).node("v", "Div", "d s", "n").node("b", "Add", "n b", "y"), "1-D constant weight");
    }

    @Test
    void a_standard_deviation_alone_is_no_near_miss_of_anything() {
        FusePatterns.Result result = sketch().input("x", DType.F32, 2, 4)
                .output("y")
                .scalar("eps", 1)
                .node("a", "Add", "x eps", "v")
                .node("q", "Sqrt", "v", "y")
                .fuse();
        assertEquals(List.of(), result.refusals());
    }
}
