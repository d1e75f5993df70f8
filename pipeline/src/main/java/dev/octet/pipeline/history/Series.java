package dev.octet.pipeline.history;

import java.math.BigDecimal;
import java.math.MathContext;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * A curve over steps. Where steps share a bin, their smallest and largest values are kept, so that no spike is lost.
 *
 * @param width steps in a bin
 * @param steps first step of each bin, ascending
 * @param min smallest value of each bin; null where no value is finite
 * @param max largest value of each bin; empty when they all equal the smallest ones
 */
public record Series(long width, List<Long> steps, List<@Nullable Double> min, List<@Nullable Double> max) {
    /** Digits of a number on a page: more than a screen can show. */
    private static final MathContext DIGITS = new MathContext(5);

    /** Nothing. */
    static final Series NONE = new Series(1, List.of(), List.of(), List.of());

    public Series {
        steps = List.copyOf(steps);
        min = Collections.unmodifiableList(new ArrayList<>(min));
        max = Collections.unmodifiableList(new ArrayList<>(max));
    }

    /**
     * A curve of at most so many bins.
     *
     * @param steps of the values
     * @param values one for each step; the line breaks where one is not finite
     */
    public static Series thinned(List<Long> steps, List<Double> values, int most) {
        StepBins bins = new StepBins(most);
        for (int i = 0; i < steps.size(); i++) {
            bins.add(steps.get(i), values.get(i));
        }
        return bins.series();
    }

    /** With numbers of five digits. */
    static Series of(long width, List<Long> steps, List<@Nullable Double> min, List<@Nullable Double> max) {
        List<@Nullable Double> low = rounded(min);
        List<@Nullable Double> high = rounded(max);
        return new Series(width, steps, low, Objects.equals(low, high) ? List.of() : high);
    }

    private static List<@Nullable Double> rounded(List<@Nullable Double> values) {
        List<@Nullable Double> all = new ArrayList<>();
        for (Double value : values) {
            all.add(value == null || !Double.isFinite(value) ? null : rounded(value));
        }
        return all;
    }

    static double rounded(double value) {
        return new BigDecimal(value).round(DIGITS).doubleValue();
    }

    /** Whether there is nothing to draw. */
    public boolean isEmpty() {
        return min.stream().allMatch(Objects::isNull);
    }
}
