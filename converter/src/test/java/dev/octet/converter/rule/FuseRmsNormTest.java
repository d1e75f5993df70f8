package dev.octet.converter.rule;

import static dev.octet.converter.rule.Sketch.sketch;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class FuseRmsNormTest {
    private static final Attribute LAST = Attribute.of("axes", List.of(-1L));

    private static Sketch start() {
        return sketch().input("x", DType.F32, 2, 5, 4)
                .output("y")
                .weight("w", 4)
                .scalar("two", 2)
                .scalar("one", 1)
                .scalar("half", 0.5)
                .scalar("minusHalf", -0.5)
                .scalar("eps", 1e-6);
    }

    private static Sketch mean(Sketch s) {
        return s.node("/norm/Pow", "Pow", "x two", "x2")
                .node("/norm/ReduceMean", "ReduceMean", "x2", "m", LAST)
                .node("/norm/Add", "Add", "m eps", "me");
    }

    private static Node only(FusePatterns.Result result) {
        assertEquals(List.of(), result.refusals());
        assertEquals(List.of("RMSNormalization"), Sketch.ops(result));
        Node n = result.model().graph().nodes().getFirst();
        assertEquals(List.of("x", "w"), n.inputs());
        assertEquals(List.of("y"), n.outputs());
        assertEquals(1e-6f, n.floatAttribute("epsilon", 0));
        assertEquals(-1, n.intAttribute("axis", 0));
        return n;
    }

    @ParameterizedTest
    @ValueSource(strings = {"Reciprocal", "Div", "Pow", "direct"})
    void the_root_may_be_inverted_or_divided_by(String how) {
        Sketch s = mean(start());
        switch (how) {
            case "Reciprocal" ->
                s.node("/norm/Sqrt", "Sqrt", "me", "s")
                        .node("r", "Reciprocal", "s", "r")
                        .node("n", "Mul", "x r", "n");
            case "Div" ->
                s.node("/norm/Sqrt", "Sqrt", "me", "s")
                        .node("r", "Div", "one s", "r")
                        .node("n", "Mul", "r x", "n");
            case "Pow" -> s.node("/norm/Pow_1", "Pow", "me minusHalf", "r").node("n", "Mul", "x r", "n");
            default -> s.node("/norm/Pow_1", "Pow", "me half", "s").node("n", "Div", "x s", "n");
        }
        assertEquals("/norm", only(s.node("w", "Mul", "w n", "y").fuse()).name());
    }

    @Test
    void idle_casts_as_Llama_exports_have_them_are_seen_through() {
        Attribute f32 = Attribute.of("to", DType.F32.onnxId());
        FusePatterns.Result result = sketch().input("x0", DType.F32, 2, 5, 4)
                .output("y")
                .output("residual")
                .weight("w", 4)
                .scalar("two", 2)
                .scalar("eps", 1e-6)
                .node("c", "Cast", "x0", "x", f32)
                .node("p", "Mul", "x x", "x2")
                .node("m", "ReduceMean", "x2", "m", LAST)
                .node("a", "Add", "eps m", "me")
                .node("q", "Sqrt", "me", "s")
                .node("d", "Div", "x s", "n")
                .node("c2", "Cast", "n", "n2", f32)
                .node("w", "Mul", "n2 w", "y")
                .node("r", "Add", "x x", "residual")
                .fuse();
        assertEquals(List.of("Cast", "RMSNormalization", "Add"), Sketch.ops(result));
    }

    @Test
    void a_norm_in_F32_inside_a_BF16_model_takes_the_BF16_value() {
        FusePatterns.Result result = sketch().input("x0", DType.BF16, 2, 5, 2)
                .output("y")
                .constant(Initializer.of(Sketch.numbers("w", DType.BF16, 1, 2)))
                .scalar("two", 2)
                .scalar("eps", 1e-6)
                .node("c", "Cast", "x0", "x", Attribute.of("to", DType.F32.onnxId()))
                .node("p", "Mul", "x x", "x2")
                .node("m", "ReduceMean", "x2", "m", LAST)
                .node("a", "Add", "eps m", "me")
                .node("q", "Sqrt", "me", "s")
                .node("d", "Div", "x s", "n")
                .node("c2", "Cast", "n", "n2", Attribute.of("to", DType.BF16.onnxId()))
                .node("w", "Mul", "n2 w", "y")
                .fuse();
        assertEquals(List.of("RMSNormalization"), Sketch.ops(result));
        assertEquals("x0", result.model().graph().nodes().getFirst().input(0));
    }

    @ParameterizedTest
    @ValueSource(strings = {"RMSNormalization", "SimplifiedLayerNormalization"})
    void the_operator_itself_changes_its_domain_only(String op) {
        only(start().node("/norm/" + op, op, "x w", "y", Attribute.of("epsilon", 1e-6f))
                .fuse());
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
    void near_misses_are_refused_with_their_reason() {
        refused(mean(start()).node("q", "Sqrt", "me", "s").node("d", "Div", "x s", "y"), "no 1-D constant weight");
        refused(
                mean(start().input("z", DType.F32, 2, 5, 4))
                        .node("q", "Sqrt", "me", "s")
                        .node("d", "Div", "z s", "n")
                        .node("w", "Mul", "n w", "y"),
                "the normalised value is not");
        refused(
                mean(start().output("s"))
                        .node("q", "Sqrt", "me", "s")
                        .node("d", "Div", "x s", "n")
                        .node("w", "Mul", "n w", "y"),
                "the normalised value is not");
        refused(
                mean(start().output("m"))
                        .node("q", "Sqrt", "me", "s")
                        .node("d", "Div", "x s", "n")
                        .node("w", "Mul", "n w", "y"),
                "interior value 'm' is a graph output");
    }
}
