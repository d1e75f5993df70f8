package dev.octet.trainer.observe;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Statistics of all elements of a tensor over micro-batches, in F64. Definitions are those of Transformer Engine (debug/features/utils/stats_computation.py at
 * commit d0067d0); a NaN among the elements makes all of them NaN.
 */
final class TensorMoments {
    private static final int CHUNK = 1 << 14;

    /** One micro-batch. */
    private record Part(long count, double sum, double variance) {}

    private final List<Part> parts = new ArrayList<>();
    private double min = Double.POSITIVE_INFINITY;
    private double max = Double.NEGATIVE_INFINITY;
    private double l1;
    private double l2Square;
    private double amax;
    private double smallest = Double.POSITIVE_INFINITY;

    void add(Sample sample) {
        long n = sample.values().count();
        double sum = 0;
        float[] chunk = new float[CHUNK];
        for (long from = 0; from < n; from += CHUNK) {
            int count = read(sample, from, chunk);
            for (int i = 0; i < count; i++) {
                double x = chunk[i];
                double magnitude = Math.abs(x);
                min = Math.min(min, x);
                max = Math.max(max, x);
                sum += x;
                l1 += magnitude;
                l2Square += x * x;
                amax = Math.max(amax, magnitude);
                smallest = magnitude == 0 ? smallest : Math.min(smallest, magnitude);
            }
        }
        double mean = sum / n;
        double deviations = 0;
        for (long from = 0; from < n; from += CHUNK) {
            int count = read(sample, from, chunk);
            for (int i = 0; i < count; i++) {
                deviations += (chunk[i] - mean) * (chunk[i] - mean);
            }
        }
        parts.add(new Part(n, sum, deviations / (n - 1)));
    }

    private static int read(Sample sample, long from, float[] chunk) {
        int count = (int) Math.min(CHUNK, sample.values().count() - from);
        sample.values().read(from, chunk, 0, count);
        return count;
    }

    /**
     * A statistic of all micro-batches so far.
     *
     * @param parity whether standard deviations are pooled by Transformer Engine's formula
     */
    double value(TensorStatistic.OfAll statistic, boolean parity) {
        return switch (statistic) {
            case MIN -> min;
            case MAX -> max;
            case MEAN -> mean();
            case STD -> parity ? transformerEngineStd() : std();
            case L1_NORM -> l1;
            case L2_NORM -> Math.sqrt(l2Square);
            case CUR_AMAX -> amax;
            // of zeros, Transformer Engine takes log2(amax) for infinite and log2(the smallest) for 0
            case DYNAMIC_RANGE -> amax == 0 ? Double.POSITIVE_INFINITY : log2(amax) - log2(smallest);
        };
    }

    private double mean() {
        return parts.stream().mapToDouble(Part::sum).sum() / count();
    }

    private long count() {
        return parts.stream().mapToLong(Part::count).sum();
    }

    /** Of the elements of all micro-batches: Σ(nᵢ - 1)varᵢ + Σnᵢ(mᵢ - m)², over n - 1. */
    private double std() {
        double mean = mean();
        double deviations = 0;
        for (Part p : parts) {
            double between = p.sum / p.count - mean;
            deviations += (p.count - 1) * p.variance + p.count * between * between;
        }
        return Math.sqrt(deviations / (count() - 1));
    }

    /** As coded in compute_std: Σnᵢ(varᵢ - (mᵢ - m)²) over n. Means that differ make it smaller. */
    private double transformerEngineStd() {
        double mean = mean();
        double sum = 0;
        for (Part p : parts) {
            double between = p.sum / p.count - mean;
            sum += p.count * (p.variance - between * between);
        }
        return Math.sqrt(sum / count());
    }

    static double log2(double x) {
        return Math.log(x) / Math.log(2);
    }

    /** The largest dynamic range of a block of a tensor. Blocks at the far edges may be shorter. */
    static double blockwise(Sample sample, TensorStatistic.MaxBlockwiseDynamicRange statistic) {
        float[] x = sample.elements();
        double range = blockwise(x, sample.rows(), sample.cols(), false, statistic);
        return statistic.bothOrientations()
                ? Math.max(range, blockwise(x, sample.cols(), sample.rows(), true, statistic))
                : range;
    }

    /** @param turned whether {@code x} is the transpose, [cols, rows] */
    private static double blockwise(
            float[] x, int rows, int cols, boolean turned, TensorStatistic.MaxBlockwiseDynamicRange statistic) {
        int size = statistic.blockSize();
        int across = Math.ceilDiv(cols, size);
        int count = statistic.dims() == 1 ? Math.ceilDiv(x.length, size) : across * Math.ceilDiv(rows, size);
        float[] largest = new float[count];
        float[] smallest = new float[count];
        Arrays.fill(smallest, Float.POSITIVE_INFINITY);
        for (int r = 0; r < rows; r++) {
            for (int c = 0; c < cols; c++) {
                float magnitude = Math.abs(turned ? x[c * rows + r] : x[r * cols + c]);
                int block = statistic.dims() == 1 ? (r * cols + c) / size : r / size * across + c / size;
                largest[block] = Math.max(largest[block], magnitude);
                smallest[block] = magnitude == 0 ? smallest[block] : Math.min(smallest[block], magnitude);
            }
        }
        double range = 0;
        for (int b = 0; b < count; b++) {
            range = largest[b] == 0 ? range : Math.max(range, log2(largest[b]) - log2(smallest[b]));
        }
        return range;
    }
}
