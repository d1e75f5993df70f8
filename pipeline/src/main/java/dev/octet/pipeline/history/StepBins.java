package dev.octet.pipeline.history;

import java.util.ArrayList;
import java.util.List;
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
     * The mean around each bin, whose weights fall exponentially to both sides: it does not lag behind.
     *
     * @param span steps within which a weight falls to 1/e
     */
    Series smooth(long span) {
        List<Long> indices = List.copyOf(bins.keySet());
        List<Bin> all = List.copyOf(bins.values());
        Mean[] before = means(indices, all, span);
        Mean[] after = means(indices.reversed(), all.reversed(), span);
        List<Long> steps = new ArrayList<>();
        List<@Nullable Double> values = new ArrayList<>();
        for (int i = 0; i < all.size(); i++) {
            Bin own = all.get(i);
            steps.add(indices.get(i) * width);
            values.add(
                    own.count == 0
                            ? null
                            : before[i].with(after[all.size() - 1 - i]).without(own));
        }
        return Series.of(width, steps, values, values);
    }

    /** Values and their weights. */
    private record Mean(double sum, double weight) {
        Mean with(Mean other) {
            return new Mean(sum + other.sum, weight + other.weight);
        }

        /** A bin that was counted twice counts once. */
        double without(Bin bin) {
            return (sum - bin.sum) / (weight - bin.count);
        }
    }

    /** Of each bin and those before it. */
    private Mean[] means(List<Long> indices, List<Bin> all, long span) {
        Mean[] means = new Mean[all.size()];
        Mean mean = new Mean(0, 0);
        for (int i = 0; i < means.length; i++) {
            double distance = i == 0 ? 0 : (double) Math.abs(indices.get(i) - indices.get(i - 1)) * width;
            double keep = Math.exp(-distance / span);
            Bin bin = all.get(i);
            mean = new Mean(keep * mean.sum + bin.sum, keep * mean.weight + bin.count);
            means[i] = mean;
        }
        return means;
    }

    /** The values so far, not finite ones left out. */
    long count() {
        return bins.values().stream().mapToLong(b -> b.count).sum();
    }
}
