package dev.octet.converter.generate;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.SplittableRandom;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class SamplingTest {
    /** Logarithms of probabilities 0.1, 0.4, 0.2, 0.3. */
    private static final float[] LOGITS = {
        (float) Math.log(0.1), (float) Math.log(0.4), (float) Math.log(0.2), (float) Math.log(0.3)
    };

    private static void assertProbabilities(Sampling sampling, double... expected) {
        assertArrayEquals(expected, sampling.probabilities(LOGITS), 1e-6);
    }

    @Test
    void without_cuts_the_probabilities_are_those_of_the_logits() {
        assertProbabilities(new Sampling(1, 0, 1), 0.1, 0.4, 0.2, 0.3);
    }

    @Test
    void a_temperature_of_a_half_squares_them() {
        assertProbabilities(new Sampling(0.5, 0, 1), 0.01 / 0.3, 0.16 / 0.3, 0.04 / 0.3, 0.09 / 0.3);
    }

    @Test
    void top_k_keeps_the_most_probable() {
        assertProbabilities(new Sampling(1, 2, 1), 0, 0.4 / 0.7, 0, 0.3 / 0.7);
    }

    @Test
    void top_k_keeps_what_is_as_probable_as_the_last() {
        double[] p = new Sampling(1, 1, 1).probabilities(new float[] {2, 2, 1});
        assertArrayEquals(new double[] {0.5, 0.5, 0}, p, 1e-12);
    }

    /** transformers leaves out, from the least probable up, what stays within 1 - top-p together: 0.1 + 0.2 is above 0.25. */
    @Test
    void top_p_keeps_what_together_reaches_it() {
        assertProbabilities(new Sampling(1, 0, 0.75), 0, 0.4 / 0.9, 0.2 / 0.9, 0.3 / 0.9);
        assertProbabilities(new Sampling(1, 0, 0.65), 0, 0.4 / 0.7, 0, 0.3 / 0.7);
        assertProbabilities(new Sampling(1, 0, 1e-9), 0, 1, 0, 0);
    }

    @Test
    void top_p_is_of_what_top_k_left() {
        // of 0.4, 0.3 and 0.2 over 0.9, the last is 0.222
        assertProbabilities(new Sampling(1, 3, 0.77), 0, 0.4 / 0.7, 0, 0.3 / 0.7);
    }

    /** 100,000 draws: the share of each token is within four standard deviations, 4 * sqrt(0.25 / 100,000). */
    @Test
    void draws_have_the_probabilities() {
        Sampling sampling = new Sampling(1, 0, 1);
        SplittableRandom random = new SplittableRandom(3);
        double[] share = new double[LOGITS.length];
        for (int i = 0; i < 100_000; i++) {
            share[sampling.choose(LOGITS, random)] += 1e-5;
        }
        assertArrayEquals(sampling.probabilities(LOGITS), share, 0.0064);
    }

    @Test
    void greedy_takes_the_first_of_the_most_probable() {
        assertEquals(1, Sampling.GREEDY.choose(new float[] {1, 3, 3}, new SplittableRandom(0)));
    }

    @Test
    void numbers_that_make_no_sense_are_refused() {
        assertThrows(IllegalArgumentException.class, () -> new Sampling(-1, 0, 1));
        assertThrows(IllegalArgumentException.class, () -> new Sampling(1, -1, 1));
        assertThrows(IllegalArgumentException.class, () -> new Sampling(1, 0, 0));
        IllegalArgumentException nan =
                assertThrows(IllegalArgumentException.class, () -> new Sampling(Double.NaN, 0, 1));
        assertTrue(requireNonNull(nan.getMessage()).contains("NaN"));
    }
}
