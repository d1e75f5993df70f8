package dev.octet.converter.infer;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class EvaluatorTest {
    private static final long HUGE = Long.MAX_VALUE;

    private static KnownValue longs(long... values) {
        return KnownValue.of(DType.I64, Shape.of(values.length), values);
    }

    private static KnownValue matrix(long rows, long columns, long... values) {
        return KnownValue.of(DType.I64, Shape.of(rows, columns), values);
    }

    private static KnownValue scalar(long value) {
        return KnownValue.of(DType.I64, Shape.SCALAR, value);
    }

    private static KnownValue truth(long... values) {
        return KnownValue.of(DType.BOOL, Shape.of(values.length), values);
    }

    private static KnownValue floats(float... values) {
        return KnownValue.of(
                DType.F32,
                Shape.of(values.length),
                IntStream.range(0, values.length)
                        .mapToLong(i -> Float.floatToRawIntBits(values[i]) & 0xFFFF_FFFFL)
                        .toArray());
    }

    private static KnownValue dims(Dim... dims) {
        return KnownValue.ofDims(DType.I64, Shape.of(dims.length), List.of(dims));
    }

    private static List<KnownValue> all(
            int outputs, String op, List<Attribute> attributes, @Nullable KnownValue... in) {
        List<String> names = new ArrayList<>();
        for (int i = 0; i < in.length; i++) {
            names.add(in[i] == null ? "" : "x" + i);
        }
        List<String> out = IntStream.range(0, outputs).mapToObj(i -> "y" + i).toList();
        return Evaluator.evaluate(
                Node.of("n", op, names, out, attributes.toArray(Attribute[]::new)), Arrays.asList(in));
    }

    private static KnownValue one(String op, List<Attribute> attributes, @Nullable KnownValue... in) {
        List<KnownValue> out = all(1, op, attributes, in);
        assertEquals(1, out.size(), op + " gave nothing");
        return out.getFirst();
    }

    private static KnownValue one(String op, KnownValue... in) {
        return one(op, List.of(), in);
    }

    private static void nothing(String op, List<Attribute> attributes, @Nullable KnownValue... in) {
        assertEquals(List.of(), all(1, op, attributes, in), op);
    }

    private static void expect(KnownValue expected, KnownValue actual) {
        assertEquals(expected.dtype(), actual.dtype());
        assertEquals(expected.shape(), actual.shape());
        assertEquals(expected.dims(), actual.dims());
    }

    @Test
    void integer_division_truncates_toward_zero() {
        expect(longs(2, -2, -2, 2), one("Div", longs(7, -7, 7, -7), longs(3, 3, -3, -3)));
    }

    @Test
    void division_by_zero_is_left_to_the_runtime() {
        nothing("Div", List.of(), longs(1), longs(0));
        nothing("Div", List.of(), longs(Long.MIN_VALUE), longs(-1));
        nothing("Mod", List.of(), longs(1), longs(0));
    }

    @Test
    void modulo_takes_the_sign_of_the_divisor_or_with_fmod_of_the_dividend() {
        expect(longs(1, -1, 2, -2), one("Mod", longs(7, -7, -7, 7), longs(3, -3, 3, -3)));
        expect(
                longs(1, -1, -1, 1),
                one("Mod", List.of(Attribute.of("fmod", 1)), longs(7, -7, -7, 7), longs(3, -3, 3, -3)));
    }

    @Test
    void thirty_two_bit_integers_wrap() {
        KnownValue big = KnownValue.of(DType.I32, Shape.of(1), Integer.MAX_VALUE);
        KnownValue one = KnownValue.of(DType.I32, Shape.of(1), 1);
        expect(KnownValue.of(DType.I32, Shape.of(1), Integer.MIN_VALUE), one("Add", big, one));
    }

    @Test
    void operands_broadcast() {
        expect(matrix(2, 3, 11, 12, 13, 21, 22, 23), one("Add", matrix(2, 1, 10, 20), longs(1, 2, 3)));
        nothing("Add", List.of(), longs(1, 2), longs(1, 2, 3));
    }

    @Test
    void comparisons_give_truth() {
        expect(truth(1, 0, 0), one("Less", longs(1, 2, 3), longs(2, 2, 2)));
        expect(truth(0, 1, 0), one("Equal", longs(1, 2, 3), longs(2, 2, 2)));
        expect(truth(0, 1, 1), one("GreaterOrEqual", longs(1, 2, 3), longs(2, 2, 2)));
        expect(truth(1, 0), one("Not", truth(0, 1)));
        expect(truth(0, 0, 0, 1), one("And", truth(0, 0, 1, 1), truth(0, 1, 0, 1)));
    }

    @Test
    void nan_compares_unequal_to_itself_and_minus_zero_equal_to_zero() {
        expect(truth(0, 1), one("Equal", floats(Float.NaN, -0f), floats(Float.NaN, 0f)));
    }

    @Test
    void float_results_are_the_bits_of_float_arithmetic() {
        float[] a = {0.1f, 0x1p127f, 3f, Float.MIN_VALUE, -7.3f};
        float[] b = {0.2f, 0x1p127f, 7f, 0.5f, 1.1f};
        float[] sums = new float[a.length];
        float[] quotients = new float[a.length];
        for (int i = 0; i < a.length; i++) {
            sums[i] = a[i] + b[i];
            quotients[i] = a[i] / b[i];
        }
        expect(floats(sums), one("Add", floats(a), floats(b)));
        expect(floats(quotients), one("Div", floats(a), floats(b)));
        expect(floats((float) Math.sqrt(64f), (float) Math.sqrt(2f)), one("Sqrt", floats(64f, 2f)));
    }

    @Test
    void casts_truncate_floats_and_leave_what_does_not_fit_to_the_runtime() {
        List<Attribute> toLong = List.of(Attribute.of("to", (long) DType.I64.onnxId()));
        expect(longs(1, -1, 0), one("Cast", toLong, floats(1.9f, -1.9f, -0.5f)));
        nothing("Cast", toLong, floats(Float.NaN));
        nothing("Cast", toLong, floats(0x1p63f));
        expect(floats(0f, 1f), one("Cast", List.of(Attribute.of("to", 1L)), truth(0, 1)));
        expect(truth(1, 0), one("Cast", List.of(Attribute.of("to", 9L)), longs(-3, 0)));
    }

    @Test
    void a_long_cast_to_float_is_rounded_once() {
        long v = (1L << 54) + (1L << 30) + 1; // its double lies on the middle between two floats
        expect(floats((float) v), one("Cast", List.of(Attribute.of("to", 1L)), longs(v)));
    }

    @Test
    void slices_clamp_and_go_backwards() {
        KnownValue x = longs(0, 1, 2, 3, 4);
        expect(longs(1, 2), one("Slice", x, longs(1), longs(3)));
        expect(longs(3, 4), one("Slice", x, longs(-2), longs(HUGE)));
        expect(longs(4, 3, 2, 1, 0), one("Slice", x, longs(-1), longs(Long.MIN_VALUE), longs(0), longs(-1)));
        expect(longs(4, 2), one("Slice", x, longs(HUGE), longs(0), longs(0), longs(-2)));
        expect(longs(), one("Slice", x, longs(3), longs(1)));
        expect(longs(0), one("Slice", x, longs(0), longs(HUGE), longs(0), longs(HUGE)));
        expect(matrix(2, 1, 2, 5), one("Slice", matrix(2, 3, 0, 1, 2, 3, 4, 5), longs(2), longs(3), longs(1)));
        nothing("Slice", List.of(), x, longs(0), longs(1), longs(0), longs(0));
        nothing("Slice", List.of(), x, longs(0), longs(1), longs(7));
    }

    @Test
    void slices_of_opset_9_have_attributes() {
        expect(
                longs(1, 2),
                one(
                        "Slice",
                        List.of(Attribute.of("starts", List.of(1L)), Attribute.of("ends", List.of(3L))),
                        longs(0, 1, 2, 3)));
    }

    @Test
    void gather_takes_negative_indices_and_scalar_ones_drop_the_axis() {
        KnownValue x = matrix(2, 3, 0, 1, 2, 3, 4, 5);
        expect(longs(3, 4, 5), one("Gather", x, scalar(-1)));
        expect(matrix(2, 2, 2, 0, 5, 3), one("Gather", List.of(Attribute.of("axis", 1)), x, longs(2, 0)));
        nothing("Gather", List.of(), x, longs(2));
    }

    @Test
    void reshape_copies_zeros_and_fills_one_open_dimension() {
        KnownValue x = matrix(2, 3, 0, 1, 2, 3, 4, 5);
        assertEquals(Shape.of(2, 1, 3), one("Reshape", x, longs(0, 1, -1)).shape());
        nothing("Reshape", List.of(), x, longs(4, -1));
        nothing("Reshape", List.of(), x, longs(-1, -1));
        nothing("Reshape", List.of(), x, longs(HUGE, 2));
        assertEquals(
                Shape.of(0, 3),
                one("Reshape", List.of(Attribute.of("allowzero", 1)), matrix(0, 2), longs(0, 3))
                        .shape());
    }

    @Test
    void squeeze_and_unsqueeze_take_axes_from_attribute_or_input() {
        expect(matrix(1, 2, 5, 6), one("Unsqueeze", List.of(Attribute.of("axes", List.of(0L))), longs(5, 6)));
        expect(matrix(2, 1, 5, 6), one("Unsqueeze", longs(5, 6), longs(-1)));
        expect(longs(5, 6), one("Squeeze", matrix(2, 1, 5, 6), longs(1)));
        expect(longs(5, 6), one("Squeeze", matrix(1, 2, 5, 6)));
        nothing("Squeeze", List.of(), matrix(2, 1, 5, 6), longs(0));
        nothing("Unsqueeze", List.of(), longs(5), longs(0, 0));
        nothing("Unsqueeze", List.of(), longs(5), longs(9));
    }

    @Test
    void transpose_expand_tile_concat_split_and_where_move_elements() {
        KnownValue x = matrix(2, 3, 0, 1, 2, 3, 4, 5);
        expect(matrix(3, 2, 0, 3, 1, 4, 2, 5), one("Transpose", x));
        expect(matrix(2, 2, 7, 7, 8, 8), one("Expand", matrix(2, 1, 7, 8), longs(1, 2)));
        expect(longs(1, 2, 1, 2), one("Tile", longs(1, 2), longs(2)));
        expect(
                matrix(2, 4, 0, 1, 2, 9, 3, 4, 5, 8),
                one("Concat", List.of(Attribute.of("axis", -1)), x, matrix(2, 1, 9, 8)));
        List<KnownValue> parts = all(2, "Split", List.of(Attribute.of("axis", 1)), x, longs(1, 2));
        expect(matrix(2, 1, 0, 3), parts.get(0));
        expect(matrix(2, 2, 1, 2, 4, 5), parts.get(1));
        List<KnownValue> uneven = all(2, "Split", List.of(Attribute.of("num_outputs", 2)), longs(1, 2, 3));
        expect(longs(1, 2), uneven.get(0));
        expect(longs(3), uneven.get(1));
        expect(longs(1, 20), one("Where", truth(1, 0), longs(1, 2), longs(10, 20)));
    }

    @Test
    void the_upper_triangle_starts_at_its_diagonal() {
        KnownValue x = matrix(2, 2, 1, 2, 3, 4);
        expect(matrix(2, 2, 1, 2, 0, 4), one("Trilu", x));
        expect(matrix(2, 2, 0, 2, 0, 0), one("Trilu", x, scalar(1)));
        expect(matrix(2, 2, 1, 0, 3, 4), one("Trilu", List.of(Attribute.of("upper", 0)), x));
    }

    @Test
    void ranges_and_fills_stop_at_the_limit() {
        expect(longs(0, 2, 4), one("Range", scalar(0), scalar(5), scalar(2)));
        expect(longs(3, 2), one("Range", scalar(3), scalar(1), scalar(-1)));
        expect(longs(), one("Range", scalar(3), scalar(3), scalar(1)));
        nothing("Range", List.of(), scalar(0), scalar(HUGE), scalar(1));
        nothing("Range", List.of(), scalar(0), scalar(5), scalar(0));
        assertEquals(
                KnownValue.MAX_ELEMENTS,
                one("ConstantOfShape", longs(KnownValue.MAX_ELEMENTS)).size());
        nothing("ConstantOfShape", List.of(), longs(KnownValue.MAX_ELEMENTS + 1));
        nothing("ConstantOfShape", List.of(), longs(-1));
        nothing("ConstantOfShape", List.of(), longs(1L << 32, 1L << 32));
        nothing("Expand", List.of(), longs(1), longs(1L << 40, 2));
        nothing("Tile", List.of(), longs(1, 2), longs(HUGE));
        try (Arena arena = Arena.ofConfined()) {
            Attribute value = Attribute.of("value", Initializer.of(Tensor.ofLongs(arena, "v", Shape.of(1), -1)));
            expect(longs(-1, -1), one("ConstantOfShape", List.of(value), longs(2)));
        }
        expect(floats(0, 0), one("ConstantOfShape", longs(2)));
    }

    @Test
    void reductions_take_axes_and_keep_or_drop_them() {
        KnownValue x = matrix(2, 3, 1, 2, 3, 4, 5, 6);
        expect(scalar(720), one("ReduceProd", List.of(Attribute.of("keepdims", 0)), x));
        expect(matrix(2, 1, 6, 15), one("ReduceSum", x, longs(1)));
        expect(longs(4, 5, 6), one("ReduceMax", List.of(Attribute.of("keepdims", 0)), x, longs(0)));
        expect(x, one("ReduceSum", List.of(Attribute.of("noop_with_empty_axes", 1)), x, longs()));
    }

    @Test
    void non_zero_lists_coordinates_by_axis() {
        expect(matrix(2, 3, 0, 1, 1, 1, 0, 2), one("NonZero", matrix(2, 3, 0, 7, 0, 7, 0, 7)));
    }

    @Test
    void symbols_ride_along_and_survive_neutral_arithmetic() {
        KnownValue shape = dims(Dim.of("batch"), Dim.of(12), Dim.UNKNOWN);
        expect(dims(Dim.of("batch"), Dim.of(12)), one("Slice", shape, longs(0), longs(2)));
        expect(dims(Dim.of(12), Dim.of("batch")), one("Gather", shape, longs(1, 0)));
        expect(shape, one("Mul", shape, longs(1)));
        expect(dims(Dim.UNKNOWN, Dim.of(24), Dim.UNKNOWN), one("Mul", shape, longs(2)));
        expect(
                dims(Dim.of("batch"), Dim.of(12), Dim.UNKNOWN, Dim.of(3)),
                one("Concat", List.of(Attribute.of("axis", 0)), shape, longs(3)));
        nothing("Equal", List.of(), shape, longs(1));
    }

    @Test
    void a_missing_or_unknown_operand_gives_nothing() {
        assertTrue(
                Evaluator.evaluate(Node.of("n", "Add", List.of("a", "b"), List.of("y")), Arrays.asList(longs(1), null))
                        .isEmpty());
        assertTrue(Evaluator.evaluate(Node.of("n", "Add", List.of(), List.of("y")), List.of())
                .isEmpty());
    }

    @Test
    void a_value_and_its_tensor_hold_the_same_elements() {
        for (KnownValue v : List.of(
                longs(1, -2, HUGE),
                truth(0, 1),
                floats(1.5f, Float.NaN),
                KnownValue.of(DType.I8, Shape.of(2), -128, 127),
                KnownValue.of(DType.U16, Shape.of(2), 0, 65535))) {
            KnownValue back = KnownValue.of(v.toTensor("t")).orElseThrow();
            expect(v, back);
        }
        assertArrayEquals(new long[] {1, 2}, longs(1, 2).integers().orElseThrow());
    }
}
