package dev.octet.pipeline.history;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * A number of each step, kept as smallest, largest and mean of bins of consecutive steps. All bins are equally wide: one step at first, twice as
 * many whenever there are too many bins. Memory does not grow with the number of steps.
 */
final class StepBins {
    private final int most;
    private TreeMap<Long, Bin> bins = new TreeMap<>();
    private long width = 1;
    private @Nullable Bin last;
    private long lastIndex;

    private static final class Bin {
        private double min = Double.POSITIVE_INFINITY;
        private double max = Double.NEGATIVE_INFINITY;
        private double sum;
        private long count;

        void add(double value) {
            min = Math.min(min, value);
            max = Math.max(max, value);
            sum += value;
            count++;
        }

        Bin with(Bin other) {
            Bin both = new Bin();
            both.min = Math.min(min, other.min);
            both.max = Math.max(max, other.max);
            both.sum = sum + other.sum;
            both.count = count + other.count;
            return both;
        }
    }

    /** @param most bins, at least 2 */
    StepBins(int most) {
        this.most = most;
    }

    /** Adds the value of a step; numbers that are not finite make an empty bin, where a line breaks. */
    void add(long step, double value) {
        long index = Math.floorDiv(step, width);
        Bin bin = last;
        if (bin == null || index != lastIndex) {
            bin = bins.computeIfAbsent(index, i -> new Bin());
            last = bin;
            lastIndex = index;
        }
        if (Double.isFinite(value)) {
            bin.add(value);
        }
        while (bins.size() > most) {
            widen();
        }
    }

    private void widen() {
        TreeMap<Long, Bin> wider = new TreeMap<>();
        bins.forEach((index, bin) -> wider.merge(Math.floorDiv(index, 2L), bin, Bin::with));
        bins = wider;
        width *= 2;
        last = null;
    }

    boolean isEmpty() {
        return bins.values().stream().allMatch(b -> b.count == 0);
    }

    /** Smallest and largest value of each bin. */
    Series series() {
        List<Long> steps = new ArrayList<>();
        List<@Nullable Double> min = new ArrayList<>();
        List<@Nullable Double> max = new ArrayList<>();
        bins.forEach((index, bin) -> {
            steps.add(index * width);
            min.add(bin.count == 0 ? null : bin.min);
            max.add(bin.count == 0 ? null : bin.max);
        });
        return Series.of(width, steps, min, max);
    }

    /**
     * The exponential moving average, corrected for its beginning.
     *
     * @param span steps that it looks back on
     */
    Series smooth(long span) {
        List<Long> steps = new ArrayList<>();
        List<@Nullable Double> values = new ArrayList<>();
        double sum = 0;
        double weight = 0;
        for (Map.Entry<Long, Bin> entry : bins.entrySet()) {
            Bin bin = entry.getValue();
            if (bin.count > 0) {
                double keep = Math.exp(-(double) bin.count / span);
                sum = keep * sum + (1 - keep) * (bin.sum / bin.count);
                weight = keep * weight + (1 - keep);
            }
            steps.add(entry.getKey() * width);
            values.add(bin.count == 0 ? null : sum / weight);
        }
        return Series.of(width, steps, values, values);
    }

    /** The values so far, not finite ones left out. */
    long count() {
        return bins.values().stream().mapToLong(b -> b.count).sum();
    }
}
