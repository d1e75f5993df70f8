package dev.octet.quant.statistics;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/** Sums up rows channel by channel; {@link StatisticsAccumulator} has one where channels are asked for. Not thread-safe. */
final class ChannelAccumulator {
    private final float[] min;
    private final float[] max;
    private final double[] sums;
    private final double[] magnitudes;
    private final double[] squares;
    private long count;

    /** Of so many channels, continuing from what was seen. */
    ChannelAccumulator(int channels, @Nullable ChannelStatistics seen) {
        if (seen != null && seen.size() != channels) {
            throw new IllegalArgumentException("statistics of " + seen.size() + " channels, not of " + channels);
        }
        if (seen == null || seen.count() == 0) {
            min = new float[channels];
            max = new float[channels];
            sums = new double[channels];
            magnitudes = new double[channels];
            squares = new double[channels];
            forget();
        } else {
            min = seen.minima();
            max = seen.maxima();
            ChannelStatistics.Sums before = seen.sums();
            sums = before.ofValues();
            magnitudes = before.ofMagnitudes();
            squares = before.ofSquares();
            count = seen.count();
        }
    }

    private void forget() {
        Arrays.fill(min, Float.POSITIVE_INFINITY);
        Arrays.fill(max, Float.NEGATIVE_INFINITY);
    }

    int size() {
        return min.length;
    }

    /** Takes in a row with one finite element of each channel, beginning at {@code from}. */
    void addRow(float[] row, int from) {
        for (int c = 0; c < min.length; c++) {
            float x = row[from + c];
            min[c] = Math.min(min[c], x);
            max[c] = Math.max(max[c], x);
        }
        for (int c = 0; c < sums.length; c++) {
            double x = row[from + c];
            sums[c] += x;
            magnitudes[c] += Math.abs(x);
            squares[c] += x * x;
        }
        count++;
    }

    /** Takes in {@code n} finite elements of one channel, beginning at {@code from}; {@link #counted} follows when all channels have as many. */
    void addTo(int channel, float[] row, int from, int n) {
        float least = min[channel];
        float greatest = max[channel];
        double sum = 0;
        double magnitude = 0;
        double square = 0;
        for (int i = from; i < from + n; i++) {
            float x = row[i];
            least = Math.min(least, x);
            greatest = Math.max(greatest, x);
            sum += x;
            magnitude += Math.abs(x);
            square += (double) x * x;
        }
        min[channel] = least;
        max[channel] = greatest;
        sums[channel] += sum;
        magnitudes[channel] += magnitude;
        squares[channel] += square;
    }

    /** Says that every channel has got so many elements more by {@link #addTo}. */
    void counted(long elements) {
        count += elements;
    }

    ChannelStatistics snapshot() {
        ChannelStatistics.Sums now = new ChannelStatistics.Sums(sums, magnitudes, squares);
        return count == 0
                ? ChannelStatistics.of(0, new float[size()], new float[size()], now)
                : ChannelStatistics.of(count, min, max, now);
    }
}
