package dev.octet.trainer.observe;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;

/**
 * Statistics of all elements of a tensor over micro-batches, in F64. Definitions are those of Transformer Engine (debug/features/utils/stats_computation.py at
 * commit d0067d0); a NaN among the elements makes all of them NaN.
 *
 * @param parts one for each micro-batch, or of a tensor that ranks share for each rank's part of it, in their order
 */
record TensorMoments(List<Part> parts) {
    private static final int CHUNK = 1 << 14;

    TensorMoments {
        parts = List.copyOf(parts);
    }

    /**
     * One micro-batch.
     *
     * @param count of elements
     * @param variance of its elements about their own mean, over n - 1
     * @param squares sum of squares
     * @param smallest magnitude above 0; infinite when there is none
     */
    record Part(
            long count,
            double sum,
            double variance,
            double min,
            double max,
            double l1,
            double squares,
            double amax,
            double smallest) {
        static Part of(Sample sample) {
            long n = sample.values().count();
            double sum = 0;
            double min = Double.POSITIVE_INFINITY;
            double max = Double.NEGATIVE_INFINITY;
            double l1 = 0;
            double squares = 0;
            double amax = 0;
            double smallest = Double.POSITIVE_INFINITY;
            float[] chunk = new float[CHUNK];
            for (long from = 0; from < n; from += CHUNK) {
                int count = elements(sample, from, chunk);
                for (int i = 0; i < count; i++) {
                    double x = chunk[i];
                    double magnitude = Math.abs(x);
                    min = Math.min(min, x);
                    max = Math.max(max, x);
                    sum += x;
                    l1 += magnitude;
                    squares += x * x;
                    amax = Math.max(amax, magnitude);
                    smallest = magnitude == 0 ? smallest : Math.min(smallest, magnitude);
                }
            }
            double mean = sum / n;
            double deviations = 0;
            for (long from = 0; from < n; from += CHUNK) {
                int count = elements(sample, from, chunk);
                for (int i = 0; i < count; i++) {
                    deviations += (chunk[i] - mean) * (chunk[i] - mean);
                }
            }
            return new Part(n, sum, deviations / (n - 1), min, max, l1, squares, amax, smallest);
        }

        void write(DataOutput out) throws IOException {
            out.writeLong(count);
            for (double x : new double[] {sum, variance, min, max, l1, squares, amax, smallest}) {
                out.writeDouble(x);
            }
        }

        static Part read(DataInput in) throws IOException {
            return new Part(
                    in.readLong(),
                    in.readDouble(),
                    in.readDouble(),
                    in.readDouble(),
                    in.readDouble(),
                    in.readDouble(),
                    in.readDouble(),
                    in.readDouble(),
                    in.readDouble());
        }
    }

    private static int elements(Sample sample, long from, float[] chunk) {
        int count = (int) Math.min(CHUNK, sample.values().count() - from);
        sample.values().read(from, chunk, 0, count);
        return count;
    }

    /**
     * A statistic of all micro-batches.
     *
     * @param parity whether standard deviations are pooled by Transformer Engine's formula
     */
    double value(TensorStatistic.OfAll statistic, boolean parity) {
        return switch (statistic) {
            case MIN -> parts.stream().mapToDouble(Part::min).reduce(Double.POSITIVE_INFINITY, Math::min);
            case MAX -> parts.stream().mapToDouble(Part::max).reduce(Double.NEGATIVE_INFINITY, Math::max);
            case MEAN -> mean();
            case STD -> parity ? transformerEngineStd() : std();
            case L1_NORM -> parts.stream().mapToDouble(Part::l1).reduce(0, Double::sum);
            case L2_NORM -> Math.sqrt(parts.stream().mapToDouble(Part::squares).reduce(0, Double::sum));
            case CUR_AMAX -> amax();
            // of zeros, Transformer Engine takes log2(amax) for infinite and log2(the smallest) for 0
            case DYNAMIC_RANGE -> amax() == 0 ? Double.POSITIVE_INFINITY : log2(amax()) - log2(smallest());
        };
    }

    private double amax() {
        return parts.stream().mapToDouble(Part::amax).reduce(0, Math::max);
    }

    private double smallest() {
        return parts.stream().mapToDouble(Part::smallest).reduce(Double.POSITIVE_INFINITY, Math::min);
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
