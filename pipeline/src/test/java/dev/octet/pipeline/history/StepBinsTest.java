package dev.octet.pipeline.history;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Objects;
import java.util.SplittableRandom;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class StepBinsTest {
    @Test
    void a_short_run_keeps_every_step() {
        StepBins bins = new StepBins(100);
        for (int step = 1; step <= 100; step++) {
            bins.add(step, step * 0.5);
        }
        Series series = bins.series();
        assertEquals(1, series.width());
        assertEquals(100, series.steps().size());
        assertEquals(17L, series.steps().get(16));
        assertEquals(8.5, series.min().get(16));
        assertEquals(List.of(), series.max());
    }

    @Test
    void a_long_run_keeps_the_smallest_and_largest_value_of_each_bin() {
        SplittableRandom random = new SplittableRandom(1);
        double[] values = new double[100_001];
        StepBins bins = new StepBins(64);
        for (int step = 1; step < values.length; step++) {
            values[step] = step == 77_777 ? 1000 : random.nextInt(100);
            bins.add(step, values[step]);
        }
        Series series = bins.series();
        assertEquals(2048, series.width());
        assertEquals(49, series.steps().size());
        for (int i = 0; i < 49; i++) {
            int from = (int) Math.max(1, series.steps().get(i));
            int to = (int) Math.min(values.length, series.steps().get(i) + series.width());
            double[] of = Arrays.copyOfRange(values, from, to);
            assertEquals(Arrays.stream(of).min().orElseThrow(), series.min().get(i));
            assertEquals(Arrays.stream(of).max().orElseThrow(), series.max().get(i));
        }
        assertEquals(
                1000.0,
                Collections.max(
                        series.max().stream().map(Objects::requireNonNull).toList()));
    }

    @Test
    void bins_do_not_depend_on_the_order_of_steps() {
        StepBins forwards = new StepBins(10);
        StepBins backwards = new StepBins(10);
        for (int step = 1; step <= 999; step++) {
            forwards.add(step, step % 37);
            backwards.add(1000 - step, (1000 - step) % 37);
        }
        assertEquals(forwards.series(), backwards.series());
    }

    @Test
    void a_loss_that_is_not_finite_breaks_the_line_and_nothing_else() {
        StepBins bins = new StepBins(10);
        bins.add(1, 4);
        bins.add(2, Double.NaN);
        bins.add(3, Double.POSITIVE_INFINITY);
        bins.add(4, 2);
        Series series = bins.series();
        assertEquals(Arrays.asList(4.0, null, null, 2.0), series.min());
        Series smooth = bins.smooth(10);
        assertNull(smooth.min().get(1));
        assertTrue(smooth.min().stream().filter(Objects::nonNull).allMatch(v -> v > 2 && v < 4), smooth.toString());
    }

    @Test
    void the_smoothed_curve_of_a_straight_line_does_not_lag_behind() {
        StepBins bins = new StepBins(1000);
        for (int step = 0; step < 1000; step++) {
            bins.add(step, 10 + step);
        }
        Series smooth = bins.smooth(20);
        for (int step = 200; step < 800; step++) {
            assertEquals(10 + step, Objects.requireNonNull(smooth.min().get(step)), 0.01 * step);
        }
    }

    @Test
    void steps_of_strangers_as_far_apart_as_numbers_go_end_in_few_bins() {
        StepBins bins = new StepBins(4);
        for (long step : new long[] {Long.MIN_VALUE, -1, 0, 1, 5, 1L << 40, Long.MAX_VALUE}) {
            bins.add(step, 1);
        }
        assertTrue(bins.series().steps().size() <= 4);
    }
}
