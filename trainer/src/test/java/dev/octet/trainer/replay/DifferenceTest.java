package dev.octet.trainer.replay;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class DifferenceTest {
    private static final float[] ZERO = {0, 0};
    private static final float[] R = {3, 4};

    @Test
    void a_vector_is_compared_by_error_angle_and_length() {
        Difference d = Difference.of(new float[] {4, 3}, R);
        assertEquals(Math.sqrt(2) / 5, d.error(), 1e-12);
        assertEquals(24.0 / 25, d.cosine(), 1e-12);
        assertEquals(1, d.ratio(), 1e-12);
        assertEquals(24.0 / 25, d.gain(), 1e-12);
        assertEquals(2, d.elements());
    }

    @Test
    void a_vector_that_is_two_percent_too_long_has_that_gain() {
        Difference d = Difference.of(new float[] {3.06f, 4.08f}, R);
        assertEquals(0.02, d.error(), 1e-6);
        assertEquals(1, d.cosine(), 1e-12);
        assertEquals(1.02, d.gain(), 1e-6);
    }

    @Test
    void vectors_of_zeros_have_no_angle() {
        assertEquals(Difference.none(2), Difference.of(ZERO, ZERO));
        assertEquals(new Difference(1, 0, 0, 2), Difference.of(ZERO, R));
        assertEquals(new Difference(Double.POSITIVE_INFINITY, 0, Double.POSITIVE_INFINITY, 2), Difference.of(R, ZERO));
    }

    @Test
    void what_is_not_finite_is_infinitely_far() {
        for (float bad : new float[] {Float.NaN, Float.POSITIVE_INFINITY}) {
            Difference d = Difference.of(new float[] {bad, 4}, R);
            assertEquals(new Difference(Double.POSITIVE_INFINITY, 0, 0, 2), d);
        }
    }

    @Test
    void elements_are_spread_evenly_over_columns() {
        assertEquals(1, Replays.stride(Replays.MAX_ELEMENTS));
        assertEquals(2, Replays.stride(Replays.MAX_ELEMENTS + 1));
        // not 64, by which every row of 4096 would give the same columns
        assertEquals(67, Replays.stride(64L * Replays.MAX_ELEMENTS));
    }
}
