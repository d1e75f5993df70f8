package dev.octet.trainer.guard;

import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.StringJoiner;

/**
 * The largest number that still counts as usual: the median of the last numbers plus a multiple of their median absolute deviation. Both stand
 * half of the numbers being outliers.
 */
final class RobustBand {
    /** Deviation of a normal distribution over its median absolute deviation. */
    private static final double NORMAL = 1.4826;

    /** Least deviation, as a share of the median: numbers that hardly change would otherwise make any change a spike. */
    private static final double LEAST = 0.01;

    private final double multiple;
    private final int window;
    private final Deque<Double> last = new ArrayDeque<>();

    /**
     * A band.
     *
     * @param multiple of the deviation; 0: everything is usual
     * @param window how many numbers it is computed from
     */
    RobustBand(double multiple, int window) {
        this.multiple = multiple;
        this.window = window;
    }

    /** The upper end; infinite with too few numbers so far. */
    double end() {
        if (multiple == 0 || last.size() < Math.max(2, window / 2)) {
            return Double.POSITIVE_INFINITY;
        }
        double[] x = last.stream().mapToDouble(Double::doubleValue).toArray();
        double median = median(x);
        double[] deviations = Arrays.stream(x).map(v -> Math.abs(v - median)).toArray();
        return median + multiple * Math.max(NORMAL * median(deviations), LEAST * Math.abs(median));
    }

    private static double median(double[] x) {
        Arrays.sort(x);
        return (x[(x.length - 1) / 2] + x[x.length / 2]) / 2;
    }

    /** Adds the number of the next step. */
    void add(double x) {
        if (Double.isFinite(x)) {
            last.addLast(x);
            if (last.size() > window) {
                last.removeFirst();
            }
        }
    }

    /** The numbers, from which {@link #recall} makes the same band again. */
    String remembered() {
        StringJoiner text = new StringJoiner(" ");
        last.forEach(x -> text.add(Double.toString(x)));
        return text.toString();
    }

    void recall(String remembered) {
        last.clear();
        for (String x : remembered.split(" ", -1)) {
            if (!x.isEmpty()) {
                add(Double.parseDouble(x));
            }
        }
    }
}
