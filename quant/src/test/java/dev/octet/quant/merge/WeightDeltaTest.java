package dev.octet.quant.merge;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.tensor.Shape;
import dev.octet.quant.merge.LowRank.Orientation;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class WeightDeltaTest {
    private static final int IN = 37;
    private static final int OUT = 21;
    private static final int RANK = 5;
    private final SplittableRandom random = new SplittableRandom(7);
    private final float[] a = numbers(RANK * IN);
    private final float[] b = numbers(OUT * RANK);

    private float[] numbers(int count) {
        float[] values = new float[count];
        for (int i = 0; i < count; i++) {
            values[i] = (float) random.nextGaussian();
        }
        return values;
    }

    /** Rows of zeros with the delta, one after the other. */
    private static float[] applied(WeightDelta delta, float[] weight) {
        float[] all = new float[Math.toIntExact(delta.rows() * delta.cols())];
        for (int r = 0; r < delta.rows(); r++) {
            float[] row = new float[delta.cols()];
            System.arraycopy(weight, r * delta.cols(), row, 0, row.length);
            delta.apply(r, row);
            System.arraycopy(row, 0, all, r * delta.cols(), row.length);
        }
        return all;
    }

    @Test
    void a_product_is_summed_over_the_rank_in_f32_from_first_to_last() {
        LowRank delta = LowRank.of(a, b, Shape.of(OUT, IN), Orientation.OUT_IN, 0.75f);
        float[] weight = numbers(OUT * IN);
        float[] expected = weight.clone();
        for (int o = 0; o < OUT; o++) {
            for (int i = 0; i < IN; i++) {
                float sum = 0;
                for (int k = 0; k < RANK; k++) {
                    sum += b[o * RANK + k] * a[k * IN + i];
                }
                expected[o * IN + i] += sum * 0.75f;
            }
        }
        assertArrayEquals(expected, applied(delta, weight));
    }

    @Test
    void a_weight_that_lies_as_in_out_gets_the_transposed_product_bit_by_bit() {
        float[] straight = applied(LowRank.of(a, b, Shape.of(OUT, IN), Orientation.OUT_IN, 2), new float[OUT * IN]);
        float[] transposed = applied(LowRank.of(a, b, Shape.of(IN, OUT), Orientation.IN_OUT, 2), new float[OUT * IN]);
        for (int o = 0; o < OUT; o++) {
            for (int i = 0; i < IN; i++) {
                assertEquals(straight[o * IN + i], transposed[i * OUT + o]);
            }
        }
    }

    /** einsum("o r e, e r i -> e o i") of PEFT's ParamWrapper. */
    @Test
    void experts_take_their_rows_of_a_and_their_columns_of_b() {
        int experts = 3;
        float[] manyA = numbers(experts * RANK * IN);
        float[] manyB = numbers(OUT * RANK * experts);
        float[] got = applied(
                LowRank.of(manyA, manyB, Shape.of(experts, OUT, IN), Orientation.OUT_IN, 1),
                new float[experts * OUT * IN]);
        for (int e = 0; e < experts; e++) {
            for (int o = 0; o < OUT; o++) {
                for (int i = 0; i < IN; i++) {
                    float sum = 0;
                    for (int k = 0; k < RANK; k++) {
                        sum += manyB[o * RANK * experts + k * experts + e] * manyA[(e * RANK + k) * IN + i];
                    }
                    assertEquals(sum, got[(e * OUT + o) * IN + i]);
                }
            }
        }
    }

    @Test
    void rows_have_the_same_bits_whatever_thread_computes_them_in_whatever_order() {
        LowRank delta = LowRank.of(a, b, Shape.of(OUT, IN), Orientation.OUT_IN, 0.3f);
        float[][] rows = new float[OUT][];
        IntStream.range(0, OUT).parallel().forEach(r -> {
            rows[OUT - 1 - r] = new float[IN];
            delta.apply(OUT - 1 - r, rows[OUT - 1 - r]);
        });
        float[] one = applied(delta, new float[OUT * IN]);
        for (int r = 0; r < OUT; r++) {
            assertArrayEquals(Arrays.copyOfRange(one, r * IN, (r + 1) * IN), rows[r]);
        }
    }

    @Test
    void outputs_of_dora_have_the_trained_magnitude_in_both_orientations() {
        float[] magnitude = new float[OUT];
        for (int o = 0; o < OUT; o++) {
            magnitude[o] = 1 + o;
        }
        float[] weight = numbers(OUT * IN);
        float[] transposed = new float[weight.length];
        for (int o = 0; o < OUT; o++) {
            for (int i = 0; i < IN; i++) {
                transposed[i * OUT + o] = weight[o * IN + i];
            }
        }
        LowRank product = LowRank.of(a, b, Shape.of(OUT, IN), Orientation.OUT_IN, 1);
        float[] rows = applied(Dora.ofRows(product, magnitude), weight);
        LowRank other = LowRank.of(a, b, Shape.of(IN, OUT), Orientation.IN_OUT, 1);
        float[] columns = applied(
                Dora.ofColumns(
                        other,
                        magnitude,
                        (row, values) -> System.arraycopy(transposed, Math.toIntExact(row) * OUT, values, 0, OUT)),
                transposed);
        for (int o = 0; o < OUT; o++) {
            double squares = 0;
            for (int i = 0; i < IN; i++) {
                squares += (double) rows[o * IN + i] * rows[o * IN + i];
                assertEquals(rows[o * IN + i], columns[i * OUT + o], 1e-5 * magnitude[o]);
            }
            assertEquals(magnitude[o], Math.sqrt(squares), 1e-5 * magnitude[o]);
        }
    }

    @Test
    void what_was_added_can_be_taken_back_and_what_was_replaced_cannot() {
        float[] weight = numbers(OUT * IN);
        LowRank product = LowRank.of(a, b, Shape.of(OUT, IN), Orientation.OUT_IN, 0.5f);
        WeightDelta both = new WeightDelta.Sequence(List.of(product, product));
        float[] back = applied(both.inverse().orElseThrow(), applied(both, weight));
        assertArrayEquals(weight, back, 4e-6f); // four roundings of numbers below 16
        assertTrue(Dora.ofRows(product, new float[OUT]).inverse().isEmpty());
        assertTrue(new WeightDelta.Replaced((_, _) -> {}, OUT, IN).inverse().isEmpty());
        float[] factors = {2, 0.5f, 4};
        WeightDelta ia3 = new WeightDelta.Factors(factors, WeightDelta.Axis.COLUMN, 1, 3);
        assertArrayEquals(
                new float[] {1, 2, 3},
                applied(ia3.inverse().orElseThrow(), applied(ia3, new float[] {1, 2, 3})),
                1e-6f);
    }

    @Test
    void a_delta_knows_whether_it_changes_anything() {
        assertTrue(LowRank.of(a, new float[OUT * RANK], Shape.of(OUT, IN), Orientation.OUT_IN, 1)
                .isIdentity());
        assertTrue(LowRank.of(a, b, Shape.of(OUT, IN), Orientation.OUT_IN, 0).isIdentity());
        assertFalse(LowRank.of(a, b, Shape.of(OUT, IN), Orientation.OUT_IN, 1).isIdentity());
        assertTrue(new WeightDelta.Factors(new float[] {1, 1}, WeightDelta.Axis.ROW, 2, 9).isIdentity());
    }

    @Test
    void factors_of_another_weight_are_refused() {
        assertThrows(
                IllegalArgumentException.class, () -> LowRank.of(a, b, Shape.of(OUT + 1, IN), Orientation.OUT_IN, 1));
    }
}
