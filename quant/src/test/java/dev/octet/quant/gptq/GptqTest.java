package dev.octet.quant.gptq;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.Quantizer;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.cast.ElementCast;
import dev.octet.quant.cast.ElementCastReference;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.scale.QuantizedTensor;
import dev.octet.quant.scale.ScaleRule;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

@Tag("twins")
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GptqTest {
    private static final GptqOptions DEFAULTS = GptqOptions.defaults();
    private static final GptqOptions UNDAMPED = GptqOptions.defaults().withDamping(0);

    private final Arena arena = Arena.ofConfined();

    @AfterEach
    void free() {
        arena.close();
    }

    private static OperandSpec perRow(Float8Format format) {
        return OperandSpec.fromValues(format, new Granularity.PerChannel(0));
    }

    private GptqResult.Done round(Tensor weight, SecondMoment input, OperandSpec spec, GptqOptions options) {
        GptqResult result = Gptq.sequential().quantize(weight, true, input, spec, options, arena);
        return assertInstanceOf(GptqResult.Done.class, result);
    }

    private static byte[] bytes(MemorySegment segment) {
        return segment.toArray(ValueLayout.JAVA_BYTE);
    }

    private QuantizedTensor nearest(Tensor weight, QuantizedTensor like) {
        return Quantizer.sequential()
                .quantize(weight, like.scale(), like.granularity(), like.format(), Overflow.SATURATE, arena);
    }

    /** Weight less rounded weight. */
    private double[][] errors(Tensor weight, QuantizedTensor rounded) {
        int out = (int) weight.shape().dim(0);
        int in = (int) weight.shape().dim(1);
        float[] values =
                Quantizer.sequential().dequantize(rounded, DType.F32, arena).toFloats();
        double[][] errors = new double[out][in];
        for (int i = 0; i < values.length; i++) {
            errors[i / in][i % in] = (double) Floats.get(weight.dtype(), weight.bytes(), i) - values[i];
        }
        return errors;
    }

    private static double cost(double[] error, SecondMoment h) {
        double sum = 0;
        for (int i = 0; i < error.length; i++) {
            for (int j = 0; j < error.length; j++) {
                sum += error[i] * h.get(i, j) * error[j];
            }
        }
        return sum;
    }

    private static double cost(double[][] errors, SecondMoment h) {
        return Arrays.stream(errors).mapToDouble(e -> cost(e, h)).sum();
    }

    @ParameterizedTest
    @EnumSource(
            value = Float8Format.class,
            names = {"E4M3FN", "E5M2", "E4M3FNUZ", "E5M2FNUZ", "E2M1"})
    void with_uncorrelated_inputs_codes_are_those_of_plain_rounding(Float8Format format) {
        Tensor weight = Samples.weight(arena, 21, 34, 1);
        weight.bytes().set(Tensor.F32_LE, 40, -0f);
        OperandSpec spec = perRow(format);
        GptqResult.Done done = round(weight, Samples.identity(34), spec, DEFAULTS);
        QuantizedTensor plain =
                Quantizer.sequential().quantize(weight, spec, arena).orElseThrow();
        assertArrayEquals(bytes(plain.codes()), bytes(done.tensor().codes()));
        assertArrayEquals(plain.scale().toFloats(), done.tensor().scale().toFloats());
        assertEquals(plain.scale().spec(), done.tensor().scale().spec());
        assertEquals(plain.spec(), done.tensor().spec());
        assertEquals(done.nearestError(), done.error());
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 5, 16, 17, 48, 61})
    void the_error_is_never_above_that_of_plain_rounding_and_reported_as_it_is(int in) {
        for (long seed = 1; seed <= 5; seed++) {
            Tensor weight = Samples.weight(arena, 19, in, seed);
            SecondMoment h = Samples.moment(Samples.correlatedRows(2 * in, in, seed));
            GptqResult.Done done = round(weight, h, perRow(Float8Format.E4M3FN), DEFAULTS);
            double[][] errors = errors(weight, done.tensor());
            double[][] plain = errors(weight, nearest(weight, done.tensor()));
            for (int c = 0; c < errors.length; c++) {
                assertTrue(cost(errors[c], h) <= cost(plain[c], h) * (1 + 1e-9), "channel " + c);
            }
            // sums of up to 61^2 products with signs, in another order
            assertEquals(cost(errors, h), done.error(), 1e-9 * cost(plain, h));
            assertEquals(cost(plain, h), done.nearestError(), 1e-9 * cost(plain, h));
        }
    }

    @Test
    void with_strongly_correlated_inputs_most_of_the_error_goes_away() {
        Tensor weight = Samples.weight(arena, 32, 64, 1);
        SecondMoment h = Samples.moment(Samples.correlatedRows(400, 64, 1));
        GptqResult.Done done = round(
                weight, h, perRow(Float8Format.E4M3FN), GptqOptions.defaults().withDamping(0.001));
        assertTrue(done.error() < 0.5 * done.nearestError(), done.error() + " of " + done.nearestError());
    }

    /** The lowest cost that any codes reach, found by trying them all. */
    private static double optimum(float[] weight, float scale, SecondMoment h, double[] error, int from) {
        if (from == weight.length) {
            return cost(error, h);
        }
        double lowest = Double.POSITIVE_INFINITY;
        for (float value : Float8Format.E2M1.decodeTable()) {
            error[from] = (double) weight[from] - value * scale;
            lowest = Math.min(lowest, optimum(weight, scale, h, error, from + 1));
        }
        return lowest;
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 4})
    void the_error_lies_between_the_best_of_all_codes_and_plain_rounding(int in) {
        int improved = 0;
        int best = 0;
        for (long seed = 1; seed <= 40; seed++) {
            Tensor weight = Samples.weight(arena, 1, in, seed);
            SecondMoment h = Samples.moment(Samples.correlatedRows(20, in, seed));
            GptqResult.Done done = round(weight, h, perRow(Float8Format.E2M1), UNDAMPED);
            double lowest = optimum(weight.toFloats(), done.tensor().scaleAt(0), h, new double[in], 0);
            assertTrue(done.error() >= lowest - 1e-9 * done.nearestError(), done.error() + " below " + lowest);
            assertTrue(done.error() <= done.nearestError());
            improved += done.error() < done.nearestError() ? 1 : 0;
            best += done.error() <= lowest + 1e-9 * done.nearestError() ? 1 : 0;
        }
        // One channel has nothing to compensate with: nearest is best.
        assertEquals(in == 1 ? 0 : 1, Math.min(1, improved), "improved " + improved);
        assertTrue(in == 1 ? best == 40 : best > 0, "best " + best);
    }

    @Test
    void no_other_code_would_do_better_at_the_channel_rounded_last() {
        int in = 12;
        Tensor weight = Samples.weight(arena, 30, in, 3);
        SecondMoment h = Samples.moment(Samples.correlatedRows(50, in, 3));
        GptqOptions inOrder = GptqOptions.defaults().withDamping(0).withLargestFirst(false);
        GptqResult.Done done = round(weight, h, perRow(Float8Format.E2M1), inOrder);
        double[][] errors = errors(weight, done.tensor());
        double[][] plain = errors(weight, nearest(weight, done.tensor()));
        int checked = 0;
        for (int c = 0; c < errors.length; c++) {
            if (Arrays.equals(errors[c], plain[c])) {
                continue;
            }
            double cost = cost(errors[c], h);
            float last = weight.toFloats()[c * in + in - 1];
            for (float value : Float8Format.E2M1.decodeTable()) {
                double[] other = errors[c].clone();
                other[in - 1] = (double) last - value * done.tensor().scaleAt(c);
                assertTrue(cost(other, h) >= cost * (1 - 1e-9));
            }
            checked++;
        }
        assertTrue(checked > 10);
    }

    /** The algorithm as the paper has it: the inverse of H, its Cholesky factor, and updates of all weights that remain. */
    private static double[] asInThePaper(
            float[] weight, float scale, SecondMoment h, double damping, Float8Format format) {
        int n = weight.length;
        double mean = Arrays.stream(h.diagonal()).average().orElseThrow();
        Integer[] order = IntStream.range(0, n).boxed().toArray(Integer[]::new);
        Arrays.sort(order, (a, b) -> Double.compare(h.get(b, b), h.get(a, a)));
        double[][] inverse = new double[n][n];
        for (int i = 0; i < n; i++) {
            for (int j = 0; j < n; j++) {
                inverse[i][j] = h.get(order[i], order[j]) + (i == j ? damping * mean : 0);
            }
        }
        invert(inverse);
        double[] w = IntStream.range(0, n).mapToDouble(i -> weight[order[i]]).toArray();
        double[] rounded = new double[n];
        for (int k = 0; k < n; k++) {
            int code = format.encode((float) w[k] / scale, Overflow.SATURATE);
            double value = format.decode(code) * scale;
            rounded[order[k]] = value;
            double error = (w[k] - value) / inverse[k][k];
            for (int j = k + 1; j < n; j++) {
                w[j] -= error * inverse[k][j];
            }
            for (int i = k + 1; i < n; i++) { // channel k leaves: one step of Gaussian elimination
                for (int j = n - 1; j >= k; j--) {
                    inverse[i][j] -= inverse[i][k] * inverse[k][j] / inverse[k][k];
                }
            }
        }
        return rounded;
    }

    private static void invert(double[][] a) {
        for (int k = 0; k < a.length; k++) {
            double pivot = 1 / a[k][k];
            a[k][k] = 1;
            for (int j = 0; j < a.length; j++) {
                a[k][j] *= pivot;
            }
            for (int i = 0; i < a.length; i++) {
                double factor = a[i][k];
                if (i != k) {
                    a[i][k] = 0;
                    for (int j = 0; j < a.length; j++) {
                        a[i][j] -= factor * a[k][j];
                    }
                }
            }
        }
    }

    @Test
    void codes_are_those_of_the_paper_with_the_inverse_of_h() {
        int in = 40;
        Tensor weight = Samples.weight(arena, 23, in, 7);
        SecondMoment h = Samples.moment(Samples.correlatedRows(300, in, 7));
        GptqResult.Done done = round(weight, h, perRow(Float8Format.E4M3FN), DEFAULTS);
        double[][] errors = errors(weight, done.tensor());
        double[][] plain = errors(weight, nearest(weight, done.tensor()));
        for (int c = 0; c < errors.length; c++) {
            float[] row = Arrays.copyOfRange(weight.toFloats(), c * in, (c + 1) * in);
            double[] expected = asInThePaper(row, done.tensor().scaleAt(c), h, DEFAULTS.damping(), Float8Format.E4M3FN);
            if (!Arrays.equals(errors[c], plain[c])) {
                for (int i = 0; i < in; i++) {
                    assertEquals(expected[i], row[i] - errors[c][i], c + ", " + i);
                }
            }
        }
    }

    @ParameterizedTest
    @EnumSource(
            value = Float8Format.class,
            names = {"E4M3FN", "E5M2", "E4M3FNUZ", "E5M2FNUZ"})
    void codes_are_finite_numbers_however_far_compensation_drives_them(Float8Format format) {
        int in = 40;
        Tensor weight = Samples.weight(arena, 8, in, 1);
        for (int i = 0; i < 8 * in; i += 7) {
            weight.bytes().set(Tensor.F32_LE, i * 4L, i % 2 == 0 ? Float.MAX_VALUE : -1e30f);
        }
        SecondMoment h = Samples.moment(Samples.correlatedRows(10, in, 1)); // rank 10 of 40
        for (GptqOptions options : new GptqOptions[] {
            UNDAMPED, GptqOptions.defaults().withDamping(1e-6).withLargestFirst(false), DEFAULTS
        }) {
            GptqResult.Done done = round(weight, h, perRow(format), options);
            for (byte code : bytes(done.tensor().codes())) {
                assertTrue(Float.isFinite(format.decode(code & 0xFF)));
            }
            assertTrue(done.error() <= done.nearestError());
        }
    }

    @Test
    void bytes_do_not_depend_on_threads_or_twins() {
        int in = 70;
        Tensor weight = Samples.weight(arena, 100, in, 1);
        SecondMoment h = Samples.moment(Samples.correlatedRows(200, in, 1));
        OperandSpec spec = OperandSpec.fromValues(Float8Format.E4M3FN, new Granularity.PerChannel(0))
                .scaledBy(new ScaleRule.MseRule(.5f, 1, 48), DType.F32);
        GptqResult.Done expected = round(weight, h, spec, DEFAULTS);
        for (int threads : new int[] {2, 3, 7}) {
            assertSame(expected, Gptq.parallel(threads).quantize(weight, true, h, spec, DEFAULTS, arena));
        }
        for (GptqTileKernel kernel : new GptqTileKernel[] {new GptqTileReference(), new GptqTileVector()}) {
            for (ElementCast cast : new ElementCast[] {new ElementCastReference(), ElementCast.best()}) {
                Gptq twin = Gptq.sequential().with(kernel, cast);
                assertSame(expected, twin.quantize(weight, true, h, spec, DEFAULTS, arena));
            }
        }
        assertThrows(IllegalArgumentException.class, () -> Gptq.parallel(0));
    }

    private static void assertSame(GptqResult.Done expected, GptqResult actual) {
        GptqResult.Done done = assertInstanceOf(GptqResult.Done.class, actual);
        assertArrayEquals(bytes(expected.tensor().codes()), bytes(done.tensor().codes()));
        assertArrayEquals(
                bytes(expected.tensor().scale().bytes()),
                bytes(done.tensor().scale().bytes()));
        assertEquals(expected.error(), done.error());
        assertEquals(expected.nearestError(), done.nearestError());
    }

    @ParameterizedTest
    @EnumSource(
            value = Float8Format.class,
            names = {"E4M3FN", "E2M1"})
    void both_layouts_of_a_weight_give_the_same_values(Float8Format format) {
        Tensor weight = Samples.weight(arena, 21, 37, 1);
        SecondMoment h = Samples.moment(Samples.correlatedRows(80, 37, 1));
        QuantizedTensor rows = round(weight, h, perRow(format), DEFAULTS).tensor();
        OperandSpec perColumn = OperandSpec.fromValues(format, new Granularity.PerChannel(-1));
        GptqResult result =
                Gptq.parallel(2).quantize(Samples.transposed(weight, arena), false, h, perColumn, DEFAULTS, arena);
        QuantizedTensor columns =
                assertInstanceOf(GptqResult.Done.class, result).tensor();
        assertEquals(Shape.of(37, 21), columns.spec().shape());
        assertArrayEquals(rows.scale().toFloats(), columns.scale().toFloats());
        Quantizer quantizer = Quantizer.sequential();
        Tensor values = Samples.transposed(quantizer.dequantize(columns, DType.F32, arena), arena);
        assertArrayEquals(quantizer.dequantize(rows, DType.F32, arena).toFloats(), values.toFloats());
    }

    @ParameterizedTest
    @EnumSource(
            value = DType.class,
            names = {"BF16", "F16"})
    void a_narrow_weight_is_rounded_as_its_values_in_f32_are(DType type) {
        Tensor wide = Samples.weight(arena, 5, 20, 1);
        Tensor narrow = Tensor.allocate(arena, new TensorSpec("w", type, Shape.of(5, 20)));
        for (int i = 0; i < 100; i++) {
            Floats.set(type, narrow.bytes(), i, wide.bytes().get(Tensor.F32_LE, i * 4L));
            wide.bytes().set(Tensor.F32_LE, i * 4L, Floats.get(type, narrow.bytes(), i));
        }
        SecondMoment h = Samples.moment(Samples.correlatedRows(80, 20, 1));
        assertSame(
                round(wide, h, perRow(Float8Format.E4M3FN), DEFAULTS),
                round(narrow, h, perRow(Float8Format.E4M3FN), DEFAULTS));
    }

    @Test
    void one_scale_for_the_tensor_is_possible() {
        Tensor weight = Samples.weight(arena, 20, 33, 1);
        SecondMoment h = Samples.moment(Samples.correlatedRows(80, 33, 1));
        OperandSpec spec = OperandSpec.fromValues(Float8Format.E4M3FN, new Granularity.PerTensor());
        GptqResult.Done done = round(weight, h, spec, DEFAULTS);
        assertEquals(
                Quantizer.sequential()
                        .quantize(weight, spec, arena)
                        .orElseThrow()
                        .scaleAt(0),
                done.tensor().scaleAt(0));
        assertTrue(done.error() < done.nearestError());
    }

    @ParameterizedTest
    @ValueSource(doubles = {0, 0.05})
    void channels_that_were_always_zero_are_rounded_to_nearest(double damping) {
        float[][] rows = Samples.correlatedRows(60, 20, 1);
        for (float[] row : rows) {
            row[3] = 0;
            row[17] = 0;
        }
        Tensor weight = Samples.weight(arena, 9, 20, 1);
        SecondMoment h = Samples.moment(rows);
        GptqResult.Done done = round(
                weight, h, perRow(Float8Format.E4M3FN), GptqOptions.defaults().withDamping(damping));
        byte[] plain = bytes(nearest(weight, done.tensor()).codes());
        byte[] codes = bytes(done.tensor().codes());
        for (int c = 0; c < 9; c++) {
            assertEquals(plain[c * 20 + 3], codes[c * 20 + 3]);
            assertEquals(plain[c * 20 + 17], codes[c * 20 + 17]);
        }
        assertFalse(Arrays.equals(plain, codes));
        assertEquals(cost(errors(weight, done.tensor()), h), done.error(), 1e-9 * done.nearestError());

        GptqResult.Done none = round(weight, Samples.moment(new float[5][20]), perRow(Float8Format.E4M3FN), DEFAULTS);
        assertArrayEquals(
                bytes(nearest(weight, none.tensor()).codes()),
                bytes(none.tensor().codes()));
        assertEquals(0, none.error());
    }

    @Test
    void a_singular_moment_is_damped_until_it_can_be_factorised() {
        Tensor weight = Samples.weight(arena, 16, 30, 1);
        SecondMoment h = Samples.moment(Samples.correlatedRows(4, 30, 1)); // 4 rows, 30 channels
        GptqResult.Done done = round(weight, h, perRow(Float8Format.E4M3FN), UNDAMPED);
        assertTrue(done.error() < 0.5 * done.nearestError());
    }

    private String refusal(Tensor weight, SecondMoment h) {
        GptqResult result = Gptq.sequential().quantize(weight, true, h, perRow(Float8Format.E4M3FN), DEFAULTS, arena);
        return assertInstanceOf(GptqResult.Refused.class, result).reason();
    }

    @Test
    void what_gives_nothing_to_go_by_is_refused_with_a_reason() {
        Tensor weight = Samples.weight(arena, 3, 4, 1);
        SecondMoment h = Samples.moment(Samples.correlatedRows(9, 4, 1));
        assertEquals("no input was seen", refusal(weight, new SecondMoment(4)));

        SecondMoment broken = Samples.moment(new float[][] {{1, 2, Float.NaN, 4}});
        assertEquals("input channel 2 was NaN, infinite or too large", refusal(weight, broken));

        SecondMoment none = new SecondMoment(4);
        none.restoreRow(0, new double[] {1});
        none.restoreRow(1, new double[] {100, 1}); // no two channels have such a product
        none.restoreRows(1);
        assertEquals("the second moment is not positive semidefinite", refusal(weight, none));

        weight.bytes().set(Tensor.F32_LE, 6 * 4, Float.NEGATIVE_INFINITY);
        assertEquals("the weight from input 2 to output 1 is -Infinity", refusal(weight, h));
    }

    @Test
    void arguments_that_do_not_fit_are_refused() {
        Tensor weight = Samples.weight(arena, 3, 4, 1);
        SecondMoment h = Samples.moment(Samples.correlatedRows(9, 4, 1));
        assertRefuses(weight, Samples.identity(3), perRow(Float8Format.E4M3FN));
        assertRefuses(weight, h, OperandSpec.fromValues(Float8Format.E4M3FN, new Granularity.PerChannel(1)));
        assertRefuses(weight, h, OperandSpec.fromValues(Float8Format.E4M3FN, new Granularity.PerGroup(1, 2)));
        assertRefuses(Tensor.ofFloats(arena, "w", Shape.of(4), 1, 2, 3, 4), h, perRow(Float8Format.E4M3FN));
        assertRefuses(Tensor.ofLongs(arena, "w", Shape.of(1, 4), 1, 2, 3, 4), h, perRow(Float8Format.E4M3FN));
        assertThrows(
                IllegalArgumentException.class, () -> GptqOptions.defaults().withDamping(-0.1));
        assertThrows(
                IllegalArgumentException.class, () -> GptqOptions.defaults().withDamping(Double.NaN));
    }

    private void assertRefuses(Tensor weight, SecondMoment h, OperandSpec spec) {
        assertThrows(
                IllegalArgumentException.class,
                () -> Gptq.sequential().quantize(weight, true, h, spec, DEFAULTS, arena));
    }

    @Test
    void a_weight_without_output_channels_has_no_codes() {
        Tensor weight = Samples.weight(arena, 0, 4, 1);
        SecondMoment h = Samples.moment(Samples.correlatedRows(9, 4, 1));
        GptqResult.Done done = round(weight, h, perRow(Float8Format.E4M3FN), DEFAULTS);
        assertEquals(0, done.tensor().codes().byteSize());
        assertEquals(0, done.error());
        OperandSpec perTensor = OperandSpec.fromValues(Float8Format.E4M3FN, new Granularity.PerTensor());
        assertEquals(1, round(weight, h, perTensor, DEFAULTS).tensor().scaleAt(0));
    }
}
