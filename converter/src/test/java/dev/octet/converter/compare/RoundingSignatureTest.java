package dev.octet.converter.compare;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.compare.RoundingSignature.Verdict;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.number.BFloat16;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.number.QuantType;
import java.io.IOException;
import java.util.Arrays;
import java.util.SplittableRandom;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Single- and double-rounded weights made by plain loops, and whether they are told apart. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class RoundingSignatureTest {
    private static final int ROWS = 256;
    private static final int COLS = 512;
    private static final Shape SHAPE = Shape.of(ROWS, COLS);

    /** Which elements share a scale in these tests. */
    private enum Sharing {
        TENSOR,
        ROW,
        BLOCK,
        GROUP;

        int of(int element) {
            int row = element / COLS;
            int col = element % COLS;
            return switch (this) {
                case TENSOR -> 0;
                case ROW -> row;
                case BLOCK -> row / 128 * (COLS / 128) + col / 128;
                case GROUP -> element / 32;
            };
        }

        int count() {
            return of(ROWS * COLS - 1) + 1;
        }
    }

    /** A weight like a trained one: rows of different size, normal within. */
    private static float[] original(long seed, boolean bf16) {
        SplittableRandom random = new SplittableRandom(seed);
        float[] x = new float[ROWS * COLS];
        double size = 1;
        for (int i = 0; i < x.length; i++) {
            if (i % COLS == 0) {
                size = 0.02 * Math.exp(random.nextGaussian() / 3);
            }
            float value = (float) (random.nextGaussian() * size);
            x[i] = bf16 ? bf16(value) : value;
        }
        return x;
    }

    private static float bf16(float x) {
        return BFloat16.toFloat(BFloat16.fromFloat(x));
    }

    private static float[] bf16(float[] x) {
        float[] y = x.clone();
        for (int i = 0; i < y.length; i++) {
            y[i] = bf16(y[i]);
        }
        return y;
    }

    /** The scale of each element: the largest magnitude of its group over 448, perhaps a power of two, times a factor. */
    private static float[] scales(float[] x, Sharing sharing, boolean powerOfTwo, float factor) {
        float[] amax = new float[sharing.count()];
        for (int i = 0; i < x.length; i++) {
            amax[sharing.of(i)] = Math.max(amax[sharing.of(i)], Math.abs(x[i]));
        }
        float[] scales = new float[x.length];
        for (int i = 0; i < x.length; i++) {
            float scale = amax[sharing.of(i)] / 448 * factor;
            scales[i] = powerOfTwo ? (float) Math.pow(2, Math.ceil(Math.log(scale) / Math.log(2))) : scale;
        }
        return scales;
    }

    private static float[] round(float[] x, float[] scales) {
        float[] y = new float[x.length];
        for (int i = 0; i < x.length; i++) {
            int code = Float8Format.E4M3FN.encode(x[i] / scales[i], Overflow.SATURATE);
            y[i] = Float8Format.E4M3FN.decode(code) * scales[i];
        }
        return y;
    }

    private static Weight fp8(float[] x, float[] scales) {
        return ArrayWeights.quantized("w", QuantType.E4M3FN, "E4M3FN", 1, SHAPE, round(x, scales), scales);
    }

    private static Weight plain(DType type, float[] x) {
        return ArrayWeights.plain("w", type, SHAPE, x);
    }

    private static TensorDiff diff(Weight a, Weight b) throws IOException {
        ModelDiff diff = TensorComparison.compare(
                "a",
                "b",
                ArrayWeights.of(a),
                ArrayWeights.of(b),
                CompareOptions.defaults().withThreads(2));
        return diff.tensors().getFirst();
    }

    @ParameterizedTest
    @ValueSource(strings = {"TENSOR", "ROW", "BLOCK", "GROUP"})
    void one_rounding_has_no_signature(String sharing) throws IOException {
        float[] x = original(1, true);
        TensorDiff diff = diff(plain(DType.BF16, x), fp8(x, scales(x, Sharing.valueOf(sharing), false, 1)));
        assertEquals(Verdict.NONE, diff.rounding().verdict(), diff.rounding().evidence());
        assertEquals(Closeness.WITHIN_ONE_ROUNDING, diff.closeness());
        assertTrue(diff.maxUlpError() > 0.49 && diff.maxUlpError() <= 0.5001, "max ulp " + diff.maxUlpError());
    }

    @Test
    void one_rounding_has_no_signature_the_other_way_round() throws IOException {
        float[] x = original(2, true);
        TensorDiff diff = diff(fp8(x, scales(x, Sharing.ROW, false, 1)), plain(DType.BF16, x));
        assertEquals(Verdict.NONE, diff.rounding().verdict());
        assertEquals(Closeness.WITHIN_ONE_ROUNDING, diff.closeness());
    }

    @Test
    void per_tensor_then_per_channel_is_found_from_the_original() throws IOException {
        float[] x = original(3, true);
        float[] between = round(x, scales(x, Sharing.TENSOR, false, 1));
        TensorDiff diff = diff(plain(DType.BF16, x), fp8(between, scales(between, Sharing.ROW, false, 1)));
        assertEquals(
                Verdict.THROUGH_ANOTHER_GRID,
                diff.rounding().verdict(),
                diff.rounding().evidence());
        assertEquals("E4M3FN per tensor", diff.rounding().through());
        assertEquals("b", diff.rounding().side());
        assertEquals(1, diff.rounding().explained(), 0.001);
        assertTrue(
                diff.rounding().beyondHalf() > 0.01,
                "beyond half: " + diff.rounding().beyondHalf());
        assertEquals(Closeness.BEYOND, diff.closeness());
    }

    @Test
    void blocks_dequantised_to_BF16_then_per_channel_is_found_from_the_original() throws IOException {
        float[] x = original(4, true);
        float[] between = bf16(round(x, scales(x, Sharing.BLOCK, false, 1)));
        TensorDiff diff = diff(plain(DType.BF16, x), fp8(between, scales(between, Sharing.ROW, false, 1)));
        assertEquals(
                Verdict.THROUGH_ANOTHER_GRID,
                diff.rounding().verdict(),
                diff.rounding().evidence());
        assertEquals(
                "E4M3FN per 128 x 128, dequantised to BF16", diff.rounding().through());
    }

    @Test
    void BF16_between_F32_and_codes_is_found() throws IOException {
        float[] x = original(5, false);
        float[] between = bf16(x);
        TensorDiff diff = diff(plain(DType.F32, x), fp8(between, scales(between, Sharing.ROW, false, 1)));
        assertEquals(
                Verdict.THROUGH_ANOTHER_GRID,
                diff.rounding().verdict(),
                diff.rounding().evidence());
        assertEquals("BF16", diff.rounding().through());
    }

    @Test
    void codes_requantised_with_another_scale_are_rounded_again() throws IOException {
        float[] x = original(6, true);
        float[] rows = scales(x, Sharing.ROW, false, 1);
        float[] first = round(x, rows);
        Weight again = fp8(first, scales(x, Sharing.TENSOR, false, 1));
        TensorDiff diff = diff(fp8(x, rows), again);
        assertEquals(
                Verdict.ROUNDED_AGAIN,
                diff.rounding().verdict(),
                diff.rounding().evidence());
        assertEquals("b", diff.rounding().side());
        TensorDiff back = diff(again, fp8(x, rows));
        assertEquals("a", back.rounding().side());
    }

    @Test
    void two_roundings_of_one_original_are_not_one_after_the_other() throws IOException {
        float[] x = original(7, true);
        TensorDiff diff = diff(fp8(x, scales(x, Sharing.ROW, false, 1)), fp8(x, scales(x, Sharing.TENSOR, false, 1)));
        assertEquals(Verdict.NONE, diff.rounding().verdict(), diff.rounding().evidence());
        assertEquals(Closeness.BEYOND, diff.closeness());
    }

    @Test
    void scales_that_differ_by_powers_of_two_are_no_second_rounding() throws IOException {
        float[] x = original(8, true);
        float[] scales = scales(x, Sharing.ROW, true, 1);
        float[] doubled = scales.clone();
        for (int i = 0; i < doubled.length; i++) {
            doubled[i] *= 2;
        }
        float[] first = round(x, scales);
        TensorDiff diff = diff(fp8(x, scales), fp8(first, doubled));
        assertEquals(Verdict.NONE, diff.rounding().verdict(), diff.rounding().evidence());
    }

    @ParameterizedTest
    @ValueSource(strings = {"TENSOR", "ROW", "BLOCK"})
    void a_BF16_model_that_was_once_quantised_is_seen_when_it_is_quantised_again(String sharing) throws IOException {
        float[] x = original(9, true);
        float[] once = bf16(round(x, scales(x, Sharing.valueOf(sharing), false, 1)));
        TensorDiff diff = diff(plain(DType.BF16, once), fp8(once, scales(once, Sharing.GROUP, false, 1)));
        assertEquals(
                Verdict.ROUNDED_AGAIN,
                diff.rounding().verdict(),
                diff.rounding().evidence());
        assertTrue(
                diff.notes().toString().contains("A looks dequantised"),
                diff.notes().toString());
    }

    @Test
    void a_BF16_model_from_MXFP8_is_seen_when_it_is_quantised_again() throws IOException {
        float[] x = original(10, true);
        float[] once = round(x, scales(x, Sharing.GROUP, true, 1));
        TensorDiff diff = diff(plain(DType.BF16, once), fp8(once, scales(once, Sharing.ROW, false, 1)));
        assertEquals(
                Verdict.ROUNDED_AGAIN,
                diff.rounding().verdict(),
                diff.rounding().evidence());
    }

    @Test
    void dequantised_codes_encoded_with_their_own_scale_are_no_second_rounding() throws IOException {
        float[] x = original(11, true);
        float[] scales = scales(x, Sharing.ROW, false, 1);
        float[] once = bf16(round(x, scales));
        TensorDiff diff = diff(plain(DType.BF16, once), fp8(once, scales));
        assertEquals(Verdict.NONE, diff.rounding().verdict(), diff.rounding().evidence());
        assertEquals(Closeness.WITHIN_ONE_ROUNDING, diff.closeness());
    }

    @Test
    void stochastic_rounding_is_not_explained_by_any_grid() throws IOException {
        float[] x = original(12, true);
        float[] scales = scales(x, Sharing.ROW, false, 1.1f);
        SplittableRandom random = new SplittableRandom(13);
        float[] shaken = x.clone();
        NumberGrid grid = NumberGrid.quantized(QuantType.E4M3FN, DType.F32);
        for (int i = 0; i < x.length; i++) {
            shaken[i] += (float) ((random.nextDouble() - 0.5) * grid.ulp(Math.abs(x[i]), scales[i]));
        }
        TensorDiff diff = diff(plain(DType.BF16, x), fp8(shaken, scales));
        assertEquals(
                Verdict.UNEXPLAINED, diff.rounding().verdict(), diff.rounding().evidence());
        assertTrue(!diff.rounding().isDouble());
    }

    @Test
    void trained_weights_do_not_look_dequantised_and_constant_ones_neither() {
        assertTrue(FewMagnitudes.find(original(14, true), ROWS, COLS).isEmpty());
        assertTrue(FewMagnitudes.find(original(14, false), ROWS, COLS).isEmpty());
        float[] ones = new float[ROWS * COLS];
        Arrays.fill(ones, 1);
        assertTrue(FewMagnitudes.find(ones, ROWS, COLS).isEmpty());
        assertTrue(FewMagnitudes.find(new float[ROWS * COLS], ROWS, COLS).isEmpty());
    }
}
