package dev.octet.quant.statistics;

import java.util.Arrays;

/**
 * Counts magnitudes in {@link #BIN_COUNT} bins whose edges do not depend on the data, so that two histograms add exactly.
 *
 * <p>A bin is the exponent and the upper four mantissa bits of a binary32 number: bin {@code b} holds the finite
 * {@code |x|} whose bits shifted right by 19 are {@code b}. That is 16 bins per octave (twice as fine as E4M3) over the whole
 * range of binary32; the first 16 bins split the subnormals evenly. Zeros, infinities and NaNs are not in it:
 * {@link TensorStatistics} counts them apart. Immutable.
 */
public final class LogHistogram {
    /** Bins between a power of two and the next. */
    public static final int BINS_PER_OCTAVE = 16;

    /** 255 exponents (the subnormals' included) of 16 bins. */
    public static final int BIN_COUNT = 255 * BINS_PER_OCTAVE;

    /** Nothing counted. */
    public static final LogHistogram EMPTY = new LogHistogram(new long[BIN_COUNT]);

    static final int SHIFT = 19; // 23 mantissa bits minus the 4 that select one of 16 bins

    private final long[] counts;

    private LogHistogram(long[] counts) {
        this.counts = counts;
    }

    /**
     * A histogram of the given counts (copied).
     *
     * @throws IllegalArgumentException when there are not {@link #BIN_COUNT} of them or one is negative
     */
    public static LogHistogram of(long[] counts) {
        if (counts.length != BIN_COUNT) {
            throw new IllegalArgumentException(counts.length + " bins, the histogram has " + BIN_COUNT);
        }
        for (int b = 0; b < counts.length; b++) {
            if (counts[b] < 0) {
                throw new IllegalArgumentException("bin " + b + " has the negative count " + counts[b]);
            }
        }
        return new LogHistogram(counts.clone());
    }

    /** The bin of a finite number; ignores the sign. */
    public static int binOf(float x) {
        int bin = (Float.floatToRawIntBits(x) & 0x7FFFFFFF) >>> SHIFT;
        if (bin >= BIN_COUNT) {
            throw new IllegalArgumentException(x + " is in no bin");
        }
        return bin;
    }

    /** The least magnitude of a bin (0 for bin 0, although zeros are not counted). */
    public static double lowerEdge(int bin) {
        return Float.intBitsToFloat(bin << SHIFT);
    }

    /** The exclusive upper edge of a bin; 2^128 for the last bin. */
    public static double upperEdge(int bin) {
        return bin + 1 == BIN_COUNT ? 0x1p128 : lowerEdge(bin + 1);
    }

    /** Count of one bin. */
    public long count(int bin) {
        return counts[bin];
    }

    /** The lowest bin with a count; -1 when the histogram is empty. */
    public int firstBin() {
        for (int b = 0; b < BIN_COUNT; b++) {
            if (counts[b] != 0) {
                return b;
            }
        }
        return -1;
    }

    /** The highest bin with a count; -1 when the histogram is empty. */
    public int lastBin() {
        for (int b = BIN_COUNT - 1; b >= 0; b--) {
            if (counts[b] != 0) {
                return b;
            }
        }
        return -1;
    }

    /**
     * Sum of all counts.
     *
     * @throws ArithmeticException when it overflows a {@code long}
     */
    public long total() {
        long sum = 0;
        for (long c : counts) {
            sum = Math.addExact(sum, c);
        }
        return sum;
    }

    /** Without bin {@code end} and those above it. */
    public LogHistogram below(int end) {
        return new LogHistogram(Arrays.copyOf(Arrays.copyOf(counts, end), BIN_COUNT));
    }

    /** The sum of both histograms. */
    public LogHistogram plus(LogHistogram other) {
        long[] sum = counts.clone();
        for (int b = 0; b < BIN_COUNT; b++) {
            sum[b] = Math.addExact(sum[b], other.counts[b]);
        }
        return new LogHistogram(sum);
    }

    /**
     * What is left without the counts of {@code part}.
     *
     * @throws IllegalArgumentException when {@code part} counts more somewhere
     */
    public LogHistogram minus(LogHistogram part) {
        long[] rest = counts.clone();
        for (int b = 0; b < BIN_COUNT; b++) {
            rest[b] -= part.counts[b];
        }
        return of(rest);
    }

    /** A copy of the counts. */
    public long[] toArray() {
        return counts.clone();
    }

    @Override
    public boolean equals(Object o) {
        return o instanceof LogHistogram h && Arrays.equals(counts, h.counts);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(counts);
    }

    @Override
    public String toString() {
        int first = firstBin();
        return first < 0
                ? "empty"
                : total() + " magnitudes from " + lowerEdge(first) + " to below " + upperEdge(lastBin());
    }
}
