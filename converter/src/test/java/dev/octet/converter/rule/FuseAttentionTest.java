package dev.octet.converter.rule;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ai.onnxruntime.OrtException;
import dev.octet.converter.pass.OnnxRuntimeOracle;
import dev.octet.converter.pass.PassLog;
import dev.octet.converter.pass.ShapeInference;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.function.IntPredicate;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Batch 2, 4 heads of 8, 3 queries and keys. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class FuseAttentionTest {
    @TempDir
    Path folder;

    private static final int LENGTH = 3;
    private static final double LOWEST = -3.4028234663852886e38;

    private static Sketch start() {
        return Sketch.sketch()
                .input("q", DType.F32, 2, 4, LENGTH, 8)
                .input("k", DType.F32, 2, 4, LENGTH, 8)
                .input("v", DType.F32, 2, 4, LENGTH, 8)
                .output("y")
                .scalar("eighth", 0.125)
                .scalar("eight", 8)
                .scalar("root", Math.sqrt(0.125))
                .scalar("low", LOWEST);
    }

    /** Nodes as {@code op inputs output}, with {@code ;} between. */
    private static Sketch lines(Sketch s, String lines) {
        for (String line : lines.split("; ", -1)) {
            int first = line.indexOf(' ');
            int last = line.lastIndexOf(' ');
            String output = line.substring(last + 1);
            String inputs = line.substring(first + 1, last);
            String op = line.substring(0, first);
            if (op.startsWith("T")) {
                List<Long> perm =
                        op.substring(1).chars().mapToObj(c -> (long) c - '0').toList();
                s.node(output, "Transpose", inputs, output, Attribute.of("perm", perm));
            } else {
                s.node(output, op, inputs, output);
            }
        }
        return s;
    }

    private FusePatterns.Result fuse(Sketch s) {
        GraphModel before = new ShapeInference().apply(s.model(), new PassLog());
        FusePatterns.Result result = FusePatterns.forTraining().fuse(before);
        if (!result.fused().isEmpty()) {
            assertSameNumbers(before, result.model());
        }
        return result;
    }

    /** In ONNX Runtime, up to the order of sums. */
    private void assertSameNumbers(GraphModel before, GraphModel after) {
        List<Tensor> inputs = before.graph().inputs().stream()
                .map(v -> Sketch.random((TensorType) requireNonNull(v.type()), v.name()))
                .toList();
        try {
            float[] expected = floats(OnnxRuntimeOracle.run(before, inputs, folder));
            float[] actual = floats(OnnxRuntimeOracle.run(after, inputs, folder));
            assertArrayEquals(expected, actual, 1e-6f);
        } catch (IOException | OrtException e) {
            throw new AssertionError(e);
        }
    }

    private static float[] floats(List<OnnxRuntimeOracle.Output> outputs) {
        FloatBuffer first =
                outputs.getFirst().bytes().order(ByteOrder.nativeOrder()).asFloatBuffer();
        float[] values = new float[first.remaining()];
        first.get(values);
        return values;
    }

    private static Node attention(FusePatterns.Result result) {
        assertEquals(List.of(), result.refusals());
        assertEquals(Map.of("Attention", 1), result.fused());
        return result.model().graph().nodes().stream()
                .filter(n -> n.is("Attention"))
                .findFirst()
                .orElseThrow();
    }

    private void refused(Sketch s, String reason) {
        FusePatterns.Result result = fuse(s);
        assertEquals(Map.of(), result.fused());
        assertEquals(1, result.refusals().size(), () -> "refusals: " + result.refusals());
        assertTrue(
                result.refusals().getFirst().reason().contains(reason),
                () -> result.refusals().toString());
    }

    private static Initializer truths(String name, IntPredicate truth, long... dims) {
        Shape shape = Shape.of(dims);
        Tensor t = Tensor.allocate(Arena.ofAuto(), new TensorSpec(name, DType.BOOL, shape));
        for (int i = 0; i < shape.elementCount(); i++) {
            t.bytes().set(ValueLayout.JAVA_BYTE, i, (byte) (truth.test(i) ? 1 : 0));
        }
        return Initializer.of(t);
    }

    private static boolean mayLook(int i) {
        return i % LENGTH <= i / LENGTH % LENGTH;
    }

    private static Initializer summand(double hidden, long... dims) {
        float[] values = new float[(int) Shape.of(dims).elementCount()];
        for (int i = 0; i < values.length; i++) {
            values[i] = mayLook(i) ? 0 : (float) hidden;
        }
        return Initializer.of(Tensor.ofFloats(Arena.ofAuto(), "m", Shape.of(dims), values));
    }

    @ParameterizedTest
    @CsvSource({
        "T0132 k t; MatMul q t s; Mul s eighth a, 0.125",
        "T0132 k t; MatMul q t s; Mul eighth s a, 0.125",
        "T0132 k t; MatMul q t s; Div s eight a, 0.125",
        "Mul q root p; T0132 k t; Mul t root u; MatMul p u a, 0.125",
        "Mul q root p; Mul k root u; T0132 u t; MatMul p t a, 0.125",
        "Mul q eighth p; T0132 k t; MatMul p t a, 0.125",
        "T0132 k t; MatMul q t a, 1"
    })
    void the_scale_may_be_anywhere(String scores, float scale) {
        Node n = attention(fuse(lines(start(), scores + "; Softmax a b; MatMul b v y")));
        assertEquals(List.of("q", "k", "v"), n.inputs());
        assertEquals(scale, n.floatAttribute("scale", 0), 1e-7f);
        assertEquals(0, n.intAttribute("is_causal", -1));
    }

    @Test
    void a_k_that_is_transposed_at_once_gets_a_transposition_of_its_own() {
        Sketch s = start().input("source", DType.F32, 2, LENGTH, 4, 8);
        FusePatterns.Result result = fuse(lines(s, "T0231 source t; MatMul q t a; Softmax a b; MatMul b v y"));
        Node n = attention(result);
        Node transpose = result.model().graph().nodes().getFirst();
        assertEquals(List.of("Transpose", "Attention"), Sketch.ops(result));
        assertEquals(List.of(transpose.output()), List.of(n.input(1)));
        assertEquals(List.of("source"), transpose.inputs());
        assertEquals(List.of(0L, 2L, 1L, 3L), transpose.intsAttribute("perm").orElseThrow());
        assertEquals(23, result.model().opset());
    }

    @Test
    void heads_that_are_repeated_are_read_once() {
        Sketch s = start().input("k2", DType.F32, 2, 2, LENGTH, 8)
                .input("v2", DType.F32, 2, 2, LENGTH, 8)
                .longs("axis", 2)
                .longs("five", 2, 2, 2, LENGTH, 8)
                .longs("four", 2, 4, LENGTH, 8);
        Node n = attention(fuse(lines(
                s,
                "Unsqueeze k2 axis ku; Expand ku five ke; Reshape ke four kr; T0132 kr t;"
                        + " Unsqueeze v2 axis vu; Expand vu five ve; Reshape ve four vr;"
                        + " MatMul q t a; Softmax a b; MatMul b vr y")));
        assertEquals(List.of("q", "k2", "v2"), n.inputs());
    }

    @Test
    void a_mask_that_is_added_stays_one() {
        Sketch s = start().input("m", DType.F32, 2, 1, LENGTH, LENGTH);
        Node n = attention(fuse(lines(s, "T0132 k t; MatMul q t s; Add m s a; Softmax a b; MatMul b v y")));
        assertEquals(List.of("q", "k", "v", "m"), n.inputs());
        assertEquals(0, n.intAttribute("is_causal", -1));
    }

    /** T5 adds a bias of positions and then a mask. */
    @Test
    void two_summands_of_scores_are_one_mask() {
        Sketch s = start().input("bias", DType.F32, 1, 4, LENGTH, LENGTH).input("m", DType.F32, 2, 1, LENGTH, LENGTH);
        FusePatterns.Result result =
                fuse(lines(s, "T0132 k t; MatMul q t s; Add s bias a; Add a m b; Softmax b c; MatMul c v y"));
        Node n = attention(result);
        Node sum = result.model().graph().nodes().getFirst();
        assertEquals(List.of("Add", "Attention"), Sketch.ops(result));
        assertEquals(List.of("bias", "m"), sum.inputs());
        assertEquals(List.of("q", "k", "v", sum.output()), n.inputs());
    }

    @Test
    void a_summand_of_zeros_beside_a_bias_is_left_out() {
        Sketch s = start().input("bias", DType.F32, 2, 4, LENGTH, LENGTH).constant(summand(0, 1, 1, LENGTH, LENGTH));
        Node n = attention(
                fuse(lines(s, "T0132 k t; MatMul q t s; Add s bias a; Add a m b; Softmax b c; MatMul c v y")));
        assertEquals(List.of("q", "k", "v", "bias"), n.inputs());
    }

    @Test
    void a_causal_summand_beside_a_bias_is_added_to_it() {
        Sketch s =
                start().input("bias", DType.F32, 2, 4, LENGTH, LENGTH).constant(summand(LOWEST, 1, 1, LENGTH, LENGTH));
        Node n = attention(
                fuse(lines(s, "T0132 k t; MatMul q t s; Add s bias a; Add a m b; Softmax b c; MatMul c v y")));
        assertEquals(4, n.inputs().size());
        assertEquals(0, n.intAttribute("is_causal", -1));
    }

    private Node withSummand(Initializer m) {
        return attention(
                fuse(lines(start().constant(m), "T0132 k t; MatMul q t s; Add s m a; Softmax a b; MatMul b v y")));
    }

    @Test
    void a_constant_summand_is_causal_only_when_its_values_say_so() {
        Node causal = withSummand(summand(LOWEST, 1, 1, LENGTH, LENGTH));
        assertEquals(List.of("q", "k", "v"), causal.inputs());
        assertEquals(1, causal.intAttribute("is_causal", -1));
        // -10000 hides nearly always, which is not always
        Node weak = withSummand(summand(-10000, 1, 1, LENGTH, LENGTH));
        assertEquals(List.of("q", "k", "v", "m"), weak.inputs());
        assertEquals(0, weak.intAttribute("is_causal", -1));
    }

    @Test
    void a_summand_of_zeros_is_left_out_unless_it_could_be_a_parameter() {
        assertEquals(3, withSummand(summand(0, 2, 1, LENGTH, LENGTH)).inputs().size());
        assertEquals(4, withSummand(summand(0, LENGTH, LENGTH)).inputs().size());
    }

    private static Sketch where(Initializer condition, String order) {
        return lines(
                start().constant(condition),
                "T0132 k t; MatMul q t s; Where c " + order + " a; Softmax a b; MatMul b v y");
    }

    @Test
    void a_known_condition_in_either_spelling_is_causal() {
        for (Sketch s : List.of(
                where(truths("c", FuseAttentionTest::mayLook, 1, 1, LENGTH, LENGTH), "s low"),
                where(truths("c", i -> !mayLook(i), LENGTH, LENGTH), "low s"))) {
            Node n = attention(fuse(s));
            assertEquals(List.of("q", "k", "v"), n.inputs());
            assertEquals(1, n.intAttribute("is_causal", -1));
        }
    }

    @Test
    void another_known_condition_says_where_to_look() {
        FusePatterns.Result result = fuse(where(truths("c", i -> i % LENGTH == 1, LENGTH, LENGTH), "low s"));
        Node n = attention(result);
        assertEquals(0, n.intAttribute("is_causal", -1));
        Tensor mask = Sketch.tensor(result.model().graph(), n.input(3));
        for (int i = 0; i < LENGTH * LENGTH; i++) {
            assertEquals(i % LENGTH == 1 ? 0 : 1, mask.bytes().get(ValueLayout.JAVA_BYTE, i));
        }
    }

    @Test
    void where_a_row_may_be_all_hidden_nothing_is_fused() {
        refused(where(truths("c", i -> i >= LENGTH, LENGTH, LENGTH), "s low"), "hides everything from a row");
        Sketch open = start().input("c", DType.BOOL, 2, 1, LENGTH, LENGTH);
        refused(lines(open, "T0132 k t; MatMul q t s; Where c s low a; Softmax a b; MatMul b v y"), "not a known mask");
        refused(where(truths("c", FuseAttentionTest::mayLook, LENGTH, LENGTH), "s eighth"), "not a constant below");
    }

    @Test
    void near_misses_are_refused_with_their_reason() {
        String all = "T0132 k t; MatMul q t s; Mul s eighth a; Softmax a b; MatMul b v y";
        refused(lines(start().output("b"), all), "interior value 'b' is a graph output");
        refused(lines(start().output("z"), all + "; Neg b z"), "interior value 'b' is also read");
        refused(lines(start().output("z"), all + "; Neg s z"), "interior value 's' is also read");
        Sketch broadcast = Sketch.sketch()
                .input("q", DType.F32, 2, 4, LENGTH, 8)
                .input("k", DType.F32, 1, 1, LENGTH, 8)
                .input("v", DType.F32, 2, 4, LENGTH, 8)
                .output("y")
                .scalar("eighth", 0.125);
        refused(lines(broadcast, all), "do not go together");
    }

    @Test
    void a_softmax_of_no_product_is_not_even_refused() {
        FusePatterns.Result result = fuse(lines(start(), "Softmax q y"));
        assertEquals(Map.of(), result.fused());
        assertEquals(List.of(), result.refusals());
    }

    @Test
    void an_import_keeps_the_single_operators() {
        Sketch s = lines(start(), "T0132 k t; MatMul q t a; Softmax a b; MatMul b v y");
        assertEquals(Map.of(), s.fuse().fused());
    }
}
