package dev.octet.quant.scale;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.quant.number.Float8Format;
import dev.octet.quant.scale.AmaxHistory.Algorithm;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class AmaxHistoryTest {
    private static final float MAX = AmaxHistory.scaledMax(Float8Format.E4M3FN, 0);

    private final float[] history = new float[4];
    private float quantScale = 1;

    private void step(float amax, Algorithm algorithm) {
        AmaxHistory.record(history, amax);
        quantScale = AmaxHistory.update(history, quantScale, MAX, algorithm);
    }

    private void expect(float scale, float... rows) {
        assertArrayEquals(rows, history);
        assertEquals(scale, quantScale);
    }

    @Test
    void the_window_is_the_pending_amax_and_those_before_it() {
        step(7, Algorithm.MAX);
        expect(64, 0, 0, 0, 7);
        step(14, Algorithm.MAX);
        expect(32, 0, 0, 7, 14);
        step(3.5f, Algorithm.MAX);
        expect(32, 0, 7, 14, 3.5f);
        step(0, Algorithm.MAX);
        expect(32, 0, 7, 14, 3.5f);
        step(3.5f, Algorithm.MAX);
        expect(32, 0, 14, 3.5f, 3.5f);
        step(3.5f, Algorithm.MAX);
        expect(32, 0, 3.5f, 3.5f, 3.5f);
        step(3.5f, Algorithm.MAX);
        expect(128, 0, 3.5f, 3.5f, 3.5f);
    }

    @Test
    void the_unfused_update_rolls_slots_that_saw_nothing() {
        for (float amax : new float[] {7, 14, 3.5f, 0}) {
            AmaxHistory.record(history, amax);
            quantScale = AmaxHistory.updateUnfused(history, quantScale, Float8Format.E4M3FN, 0, Algorithm.MAX);
        }
        expect(32, 0, 14, 3.5f, 0);
    }

    @Test
    void several_casts_in_a_step_keep_the_largest_amax() {
        AmaxHistory.record(history, 2);
        AmaxHistory.record(history, 5);
        AmaxHistory.record(history, 3);
        AmaxHistory.record(history, Float.NaN);
        assertEquals(5, history[0]);
    }

    @Test
    void the_most_recent_amax_alone_counts_when_asked_for() {
        step(14, Algorithm.MOST_RECENT);
        expect(32, 0, 0, 0, 14);
        step(3.5f, Algorithm.MOST_RECENT);
        expect(128, 0, 0, 14, 3.5f);
        step(0, Algorithm.MOST_RECENT);
        expect(128, 0, 0, 14, 3.5f);
    }

    @Test
    void an_infinity_freezes_the_scale_until_it_has_left_the_window() {
        step(7, Algorithm.MAX);
        step(Float.POSITIVE_INFINITY, Algorithm.MAX);
        expect(64, 0, 0, 7, Float.POSITIVE_INFINITY);
        for (int i = 0; i < 3; i++) {
            step(1, Algorithm.MAX);
            assertEquals(64, quantScale);
        }
        expect(64, 0, 1, 1, 1);
        step(1, Algorithm.MAX);
        expect(448, 0, 1, 1, 1);
    }

    @Test
    void an_infinity_lets_the_most_recent_scale_be_for_one_step() {
        step(7, Algorithm.MOST_RECENT);
        step(Float.POSITIVE_INFINITY, Algorithm.MOST_RECENT);
        assertEquals(64, quantScale);
        step(1, Algorithm.MOST_RECENT);
        assertEquals(448, quantScale);
    }

    @Test
    void a_nan_from_elsewhere_takes_a_row_and_counts_for_nothing() {
        step(7, Algorithm.MAX);
        history[0] = Float.NaN;
        step(0, Algorithm.MAX);
        expect(64, 0, 0, 7, Float.NaN);
        history[0] = Float.NaN;
        quantScale = AmaxHistory.update(history, quantScale, MAX, Algorithm.MOST_RECENT);
        expect(64, 0, 7, Float.NaN, Float.NaN);
    }

    @Test
    void a_nan_freezes_the_unfused_scale() {
        history[2] = Float.NaN;
        history[0] = 7;
        assertEquals(3, AmaxHistory.updateUnfused(history, 3, Float8Format.E4M3FN, 0, Algorithm.MAX));
        assertArrayEquals(new float[] {0, Float.NaN, 0, 7}, history);
    }

    @Test
    void a_history_of_one_is_the_pending_amax() {
        float[] one = {7};
        assertEquals(64, AmaxHistory.update(one, 1, MAX, Algorithm.MAX));
        assertEquals(0, one[0]);
        assertEquals(64, AmaxHistory.update(one, 64, MAX, Algorithm.MAX));
        one[0] = 14;
        assertEquals(32, AmaxHistory.updateUnfused(one, 64, Float8Format.E4M3FN, 0, Algorithm.MAX));
        assertEquals(0, one[0]);
    }

    @Test
    void the_margin_is_taken_before_the_division_when_fused_and_after_it_when_not() {
        float[] fused = {1.5e-37f, 0};
        float[] unfused = fused.clone();
        float scaledMax = AmaxHistory.scaledMax(Float8Format.E4M3FN, 4);
        assertEquals(28 / 1.5e-37f, AmaxHistory.update(fused, 1, scaledMax, Algorithm.MAX));
        assertEquals(Float.MAX_VALUE, AmaxHistory.updateUnfused(unfused, 1, Float8Format.E4M3FN, 4, Algorithm.MAX));
    }

    @Test
    void an_infinite_scale_becomes_the_largest_number() {
        float[] tiny = {Float.MIN_VALUE, 0};
        assertEquals(Float.MAX_VALUE, AmaxHistory.update(tiny, 1, MAX, Algorithm.MAX));
    }
}
