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
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class FuseGeluTest {
    /** Constants stored in {@code dtype}. */
    private static Sketch start(DType dtype) {
        Sketch s = sketch().input("x", DType.F32, 2, 5, 4).output("y");
        Map<String, Double> numbers = Map.of(
                "root2", Math.sqrt(2),
                "invRoot2", Math.sqrt(0.5),
                "half", 0.5,
                "one", 1.0,
                "two", 2.0,
                "three", 3.0,
                "k", 0.044715,
                "root2pi", Math.sqrt(2 / Math.PI));
        numbers.forEach((name, v) -> s.constant(Initializer.of(Sketch.number(name, dtype, v))));
        return s;
    }

    private static void only(String approximate, FusePatterns.Result result) {
        assertEquals(List.of(), result.refusals());
        assertEquals(List.of("Gelu"), Sketch.ops(result));
        Node n = result.model().graph().nodes().getFirst();
        assertEquals(Node.OCTET_DOMAIN, n.domain());
        assertEquals(List.of("x"), n.inputs());
        assertEquals(List.of("y"), n.outputs());
        assertEquals(approximate, n.textAttribute("approximate", ""));
    }

    /** One line per exporter's order: the nodes behind {@code erf + 1 = e1}, as {@code op in in out}. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "Mul x e1 p; Mul p half y",
                "Mul e1 x p; Mul half p y",
                "Mul half e1 p; Mul x p y",
                "Mul x half p; Mul p e1 y",
                "Mul half x p; Mul e1 p y",
                "Mul x e1 p; Div p two y",
                "Div e1 two p; Mul p x y"
            })
    void the_half_may_come_before_after_or_on_x(String tail) {
        for (DType dtype : List.of(DType.F32, DType.F16, DType.BF16, DType.F64)) {
            only("none", lines(erf(start(dtype)), tail).fuse());
            only(
                    "none",
                    lines(
                                    start(dtype)
                                            .node("/act/Mul", "Mul", "invRoot2 x", "a")
                                            .node("/act/Erf", "Erf", "a", "e")
                                            .node("/act/Add", "Add", "one e", "e1"),
                                    tail)
                            .fuse());
        }
    }

    private static Sketch erf(Sketch s) {
        return s.node("/act/Div", "Div", "x root2", "a")
                .node("/act/Erf", "Erf", "a", "e")
                .node("/act/Add", "Add", "e one", "e1");
    }

    private static Sketch lines(Sketch s, String lines) {
        for (String line : lines.split("; ", -1)) {
            String[] word = line.split(" ", -1);
            s.node("/act/" + word[3], word[0], word[1] + " " + word[2], word[3]);
        }
        return s;
    }

    /** The orders in which the argument of tanh and the product behind it are found in exports. */
    @ParameterizedTest
    @CsvSource({
        // HF gelu_new
        "Pow x three p; Mul p k q; Add x q r; Mul r root2pi a, Mul x half h; Mul h t1 y",
        "Pow x three p; Mul k p q; Add q x r; Mul root2pi r a, Mul t1 x h; Mul half h y",
        "Mul x x xx; Mul xx x p; Mul p k q; Add x q r; Mul r root2pi a, Mul half t1 h; Mul x h y",
        // Megatron and OpenAI: x·0.797·(1 + 0.044715·x·x)
        "Mul x root2pi p; Mul x k q; Mul q x r; Add r one s; Mul p s a, Mul x half h; Mul h t1 y",
        "Mul root2pi x p; Mul x x q; Mul k q r; Add one r s; Mul s p a, Mul half x h; Mul t1 h y",
        "Pow x two q; Mul k q r; Add one r s; Mul x s u; Mul u root2pi a, Mul x t1 h; Mul h half y"
    })
    void the_tanh_form_may_be_grouped_in_any_way(String argument, String tail) {
        for (DType dtype : List.of(DType.F32, DType.F16, DType.BF16)) {
            Sketch s = lines(start(dtype), argument)
                    .node("/act/Tanh", "Tanh", "a", "t")
                    .node("/act/Add", "Add", "t one", "t1");
            only("tanh", lines(s, tail).fuse());
        }
    }

    @Test
    void the_node_is_named_after_its_module_and_its_numbers_are_gone() {
        FusePatterns.Result result = lines(
                        erf(sketch().input("x", DType.F32, 4)
                                .output("y")
                                .constantNode("root2", Math.sqrt(2))
                                .constantNode("one", 1)
                                .scalar("half", 0.5)),
                        "Mul x e1 p; Mul p half y")
                .fuse();
        only("none", result);
        assertEquals("/act", result.model().graph().nodes().getFirst().name());
        assertEquals(Map.of(), result.model().graph().initializers());
    }

    @Test
    void numbers_that_two_GELUs_share_are_no_obstacle() {
        Sketch s = lines(erf(start(DType.F32)), "Mul x e1 p; Mul p half y")
                .output("z")
                .node("d", "Div", "y root2", "b")
                .node("e", "Erf", "b", "f")
                .node("a", "Add", "f one", "f1");
        FusePatterns.Result result = lines(s, "Mul y f1 q; Mul half q z").fuse();
        assertEquals(Map.of("Gelu", 2), result.fused());
    }

    @ParameterizedTest
    @EnumSource(names = {"F32"})
    void the_operator_itself_changes_its_domain_only(DType dtype) {
        only("none", start(dtype).node("g", "Gelu", "x", "y").fuse());
        only(
                "tanh",
                start(dtype)
                        .node("g", "Gelu", "x", "y", Attribute.of("approximate", "tanh"))
                        .fuse());
        only(
                "none",
                start(dtype)
                        .node(Node.of("g", "Gelu", "com.microsoft", List.of("x"), List.of("y")))
                        .fuse());
        only(
                "tanh",
                start(dtype)
                        .node(Node.of("g", "FastGelu", "com.microsoft", List.of("x"), List.of("y")))
                        .fuse());
    }

    @Test
    void a_FastGelu_with_a_bias_is_left_alone() {
        FusePatterns.Result result = start(DType.F32)
                .weight("b", 4)
                .node(Node.of("g", "FastGelu", "com.microsoft", List.of("x", "b"), List.of("y")))
                .fuse();
        assertEquals(Map.of(), result.fused());
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
        refused(
                lines(
                        start(DType.F32)
                                .node("d", "Div", "x two", "a")
                                .node("e", "Erf", "a", "e")
                                .node("o", "Add", "e one", "e1"),
                        "Mul x e1 p; Mul p half y"),
                "not x/sqrt(2)");
        refused(lines(erf(start(DType.F32)), "Mul x e1 y"), "does not follow");
        refused(lines(erf(start(DType.F32)), "Mul x e1 p; Mul p one y"), "does not follow");
        refused(
                lines(erf(start(DType.F32).output("e")), "Mul x e1 p; Mul p half y"),
                "does not follow, or its parts are read elsewhere");
        refused(
                lines(erf(start(DType.F32).output("a")), "Mul x e1 p; Mul p half y"),
                "interior value 'a' is a graph output");
    }

    @Test
    void a_tanh_of_anything_else_is_not_even_refused() {
        FusePatterns.Result result = start(DType.F32)
                .node("m", "Mul", "x half", "a")
                .node("t", "Tanh", "a", "y")
                .fuse();
        assertEquals(List.of(), result.refusals());
        assertEquals(Map.of(), result.fused());
    }
}
