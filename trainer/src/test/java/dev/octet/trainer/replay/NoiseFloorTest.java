package dev.octet.trainer.replay;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class NoiseFloorTest {
    private static final long MANY = 1_000_000;

    /** A replay of one step with a gradient of two parameters. */
    private static Replay replay(double loss, double a, double b, double gain) {
        Map<String, Difference> gradients = Map.of("a", error(a, gain), "b", error(b, gain));
        return new Replay("r", List.of(loss), List.of(1.0), List.of(gradients), Map.of(), "", 0);
    }

    private static Difference error(double e, double gain) {
        return new Difference(e, 1, gain, MANY);
    }

    private static final Replay REFERENCE = replay(2, 0, 0, 1);

    private static NoiseFloor floor(double order, double rounding) {
        return NoiseFloor.ofRounding(REFERENCE, replay(2, order, order, 1), replay(2, rounding, rounding, 1));
    }

    private static double excess(NoiseFloor floor, double error) {
        return floor.deviation(replay(2, error, 0, 1), REFERENCE).excess();
    }

    @Test
    void three_times_the_larger_noise_is_the_most_that_is_healthy() {
        assertEquals(1, excess(floor(0.01, 0.05), 0.15), 0.01);
        assertEquals(1, excess(floor(0.07, 0.05), 0.21), 0.01);
        assertEquals(2, excess(floor(0.01, 0.05), 0.30), 0.02);
    }

    @Test
    void the_mantissa_excuses_a_median_of_a_fifth_and_other_noise_anything() {
        assertEquals(1, excess(floor(0.01, 5), 3 * NoiseFloor.MOST_ROUNDING), 0.01);
        assertEquals(1, excess(floor(0.5, 5), 1.5), 0.01);
    }

    /** Nothing is left of such a gradient but rounding, and nothing is at fault for that. */
    @Test
    void where_the_mantissa_changes_the_loss_by_more_than_the_loss_it_excuses_anything() {
        Replay nearZero = replay(1e-6, 0, 0, 1);
        NoiseFloor floor = NoiseFloor.ofRounding(nearZero, nearZero, replay(1e-3, 5, 5, 1));
        assertEquals(1, floor.deviation(replay(1e-3, 15, 0, 1), nearZero).excess(), 0.01);
        assertEquals(2, floor.deviation(replay(1e-3, 30, 0, 1), nearZero).excess(), 0.02);
        Replay zero = replay(0, 0, 0, 1);
        double infinite = Double.POSITIVE_INFINITY;
        NoiseFloor ofZero = NoiseFloor.ofRounding(zero, zero, replay(1e-3, infinite, infinite, 1));
        Deviation same = ofZero.deviation(replay(1e-3, infinite, infinite, 1), zero);
        assertFalse(same.isSick(), same.toString());
        Deviation worse = ofZero.deviation(replay(1, infinite, infinite, 1), zero);
        assertTrue(worse.isSick(), worse.toString());
    }

    @Test
    void a_gradient_that_is_the_small_difference_of_large_numbers_is_excused_by_its_own_noise() {
        Map<String, Difference> gradients = Map.of("a", error(4, 1), "b", error(0.1, 1), "c", error(0.1, 1));
        Replay rounding = new Replay("r", List.of(2.0), List.of(1.0), List.of(gradients), Map.of(), "", 0);
        Map<String, Difference> none = Map.of("a", error(0, 1), "b", error(0, 1), "c", error(0, 1));
        Replay order = new Replay("r", List.of(2.0), List.of(1.0), List.of(none), Map.of(), "", 0);
        assertEquals(
                4,
                NoiseFloor.ofRounding(REFERENCE, order, rounding)
                        .gradients()
                        .getFirst()
                        .get("a"));
    }

    @Test
    void a_parameter_whose_noise_happens_to_be_small_has_half_of_the_median() {
        NoiseFloor floor = NoiseFloor.ofRounding(REFERENCE, REFERENCE, replay(2, 1e-9, 0.1, 1));
        assertEquals(0.05, floor.gradients().getFirst().getOrDefault("a", 0.0), 1e-9);
    }

    @Test
    void errors_of_few_elements_may_vary_more() {
        Difference few = new Difference(0.2, 1, 1, 4);
        Replay replay = new Replay("r", List.of(2.0), List.of(1.0), List.of(Map.of("a", few)), Map.of(), "", 0);
        assertFalse(floor(0.05, 0).deviation(replay, REFERENCE).isSick());
        assertTrue(excess(floor(0.05, 0), 0.2) > 1);
    }

    @Test
    void a_loss_may_be_off_by_three_percent_and_by_three_times_the_noise() {
        assertEquals(1, floor(0, 0).deviation(replay(2.06, 0, 0, 1), REFERENCE).excess(), 0.01);
        NoiseFloor noisy = NoiseFloor.ofRounding(REFERENCE, replay(2.1, 0, 0, 1), REFERENCE);
        assertEquals(1, noisy.deviation(replay(2.3, 0, 0, 1), REFERENCE).excess(), 0.01);
    }

    @Test
    void what_is_not_finite_is_sick_and_the_place_is_named() {
        Replay bad = new Replay("r", List.of(Double.NaN), List.of(1.0), List.of(Map.of()), Map.of(), "step 1: loss", 0);
        Deviation d = floor(0.01, 0.05).deviation(bad, REFERENCE);
        assertEquals(Double.POSITIVE_INFINITY, d.excess());
        assertEquals("step 1: loss", d.by());
        assertEquals(Double.POSITIVE_INFINITY, d.loss());
    }

    @Test
    void a_product_is_wrong_when_gradients_have_another_length_and_not_when_single_codes_differ() {
        NoiseFloor products = NoiseFloor.ofProducts(REFERENCE, REFERENCE);
        assertTrue(products.deviation(replay(2, 0.02, 0, 1.02), REFERENCE).isSick());
        assertFalse(products.deviation(replay(2, 0.05, 0, 1.0005), REFERENCE).isSick());
        assertFalse(products.deviation(replay(2, 0.01, 0, 1.01), REFERENCE).isSick());
    }

    @Test
    void steps_that_jump_above_those_before_them_are_spikes() {
        Replay r = new Replay(
                "r", List.of(9.0, 2.0, 2.1, 4.5, 2.0), List.of(1.0, 1.0, 1.1, 1.0, 12.0), List.of(), Map.of(), "", 0);
        assertEquals(List.of(3, 4), Spikes.of(r), "the first step of all is no jump");
    }
}
