package dev.octet.quant.statistics;

import java.util.Arrays;
import java.util.Objects;

/**
 * What was seen of each channel of a tensor: of each index of its last axis, or of each head of a query, key or value. SmoothQuant, AWQ, scales per
 * head and predictions of errors are solved from them. Rows with a NaN or an infinity are left out. Immutable.
 *
 * <p>Means are of the counted elements. Sums are in double precision, in the order of the rows, so they do not depend on threads.
 */
public final class ChannelStatistics {
    private final long count;
    private final float[] min;
    private final float[] max;
    private final double[] sums;
    private final double[] magnitudes;
    private final double[] squares;

    private ChannelStatistics(
            long count, float[] min, float[] max, double[] sums, double[] magnitudes, double[] squares) {
        this.count = count;
        this.min = min;
        this.max = max;
        this.sums = sums;
        this.magnitudes = magnitudes;
        this.squares = squares;
    }

    /** The sums of a channel's elements, of their magnitudes and of their squares; each an array over the channels. */
    @SuppressWarnings("ArrayRecordComponent") // handed on within the package
    record Sums(double[] ofValues, double[] ofMagnitudes, double[] ofSquares) {}

    /**
     * Statistics of these numbers, which are copied.
     *
     * @param count elements of each channel
     * @param min least element of each channel; 0 without elements
     * @param max greatest element of each channel; 0 without elements
     * @throws IllegalArgumentException when lengths differ or numbers contradict each other
     */
    static ChannelStatistics of(long count, float[] min, float[] max, Sums sums) {
        int n = min.length;
        if (n == 0
                || max.length != n
                || sums.ofValues.length != n
                || sums.ofMagnitudes.length != n
                || sums.ofSquares.length != n) {
            throw new IllegalArgumentException("statistics of channels have different lengths, or none");
        }
        for (int c = 0; c < n; c++) {
            boolean range = Float.isFinite(min[c]) && Float.isFinite(max[c]) && min[c] <= max[c];
            boolean finite = Double.isFinite(sums.ofValues[c])
                    && Double.isFinite(sums.ofMagnitudes[c])
                    && Double.isFinite(sums.ofSquares[c]);
            boolean zero = count == 0 && (min[c] != 0 || max[c] != 0);
            if (count < 0 || !range || !finite || sums.ofMagnitudes[c] < 0 || sums.ofSquares[c] < 0 || zero) {
                throw new IllegalArgumentException(
                        "channel " + c + " of " + count + " elements: range " + min[c] + " to "
                                + max[c] + ", sums " + sums.ofValues[c] + ", " + sums.ofMagnitudes[c] + " and "
                                + sums.ofSquares[c]);
            }
        }
        return new ChannelStatistics(
                count,
                min.clone(),
                max.clone(),
                sums.ofValues.clone(),
                sums.ofMagnitudes.clone(),
                sums.ofSquares.clone());
    }

    /** Number of channels. */
    public int size() {
        return min.length;
    }

    /** Elements of each channel: rows of the tensor, or rows times the size of a head. */
    public long count() {
        return count;
    }

    /** Least element of a channel; 0 without elements. */
    public float min(int channel) {
        return min[channel];
    }

    /** Greatest element of a channel; 0 without elements. */
    public float max(int channel) {
        return max[channel];
    }

    /** Greatest magnitude of a channel; 0 without elements. */
    public float amax(int channel) {
        return Math.max(-min[channel], max[channel]);
    }

    /** The greatest magnitude of each channel; a copy. */
    public float[] amax() {
        float[] amax = new float[size()];
        for (int c = 0; c < amax.length; c++) {
            amax[c] = amax(c);
        }
        return amax;
    }

    /** Mean of a channel, 0 without elements. */
    public double mean(int channel) {
        return count == 0 ? 0 : sums[channel] / count;
    }

    /** Mean magnitude of a channel, 0 without elements; what AWQ takes for the weight of a channel. */
    public double meanMagnitude(int channel) {
        return count == 0 ? 0 : magnitudes[channel] / count;
    }

    /** Mean square of a channel, 0 without elements. */
    public double meanSquare(int channel) {
        return count == 0 ? 0 : squares[channel] / count;
    }

    /** The least element of each channel; a copy. */
    public float[] minima() {
        return min.clone();
    }

    /** The greatest element of each channel; a copy. */
    public float[] maxima() {
        return max.clone();
    }

    Sums sums() {
        return new Sums(sums.clone(), magnitudes.clone(), squares.clone());
    }

    /**
     * Of both sets of samples together; sums round once.
     *
     * @throws IllegalArgumentException when there are not as many channels
     */
    public ChannelStatistics merge(ChannelStatistics other) {
        if (other.size() != size()) {
            throw new IllegalArgumentException(size() + " channels and " + other.size() + " channels");
        }
        if (count == 0 || other.count == 0) {
            return count == 0 ? other : this;
        }
        float[] least = new float[size()];
        float[] greatest = new float[size()];
        double[] values = new double[size()];
        double[] ofMagnitudes = new double[size()];
        double[] ofSquares = new double[size()];
        for (int c = 0; c < least.length; c++) {
            least[c] = Math.min(min[c], other.min[c]);
            greatest[c] = Math.max(max[c], other.max[c]);
            values[c] = sums[c] + other.sums[c];
            ofMagnitudes[c] = magnitudes[c] + other.magnitudes[c];
            ofSquares[c] = squares[c] + other.squares[c];
        }
        return of(Math.addExact(count, other.count), least, greatest, new Sums(values, ofMagnitudes, ofSquares));
    }

    @Override
    public boolean equals(Object o) {
        return o instanceof ChannelStatistics s
                && count == s.count
                && Arrays.equals(min, s.min)
                && Arrays.equals(max, s.max)
                && Arrays.equals(sums, s.sums)
                && Arrays.equals(magnitudes, s.magnitudes)
                && Arrays.equals(squares, s.squares);
    }

    @Override
    public int hashCode() {
        return Objects.hash(count, Arrays.hashCode(min), Arrays.hashCode(max), Arrays.hashCode(squares));
    }

    @Override
    public String toString() {
        return size() + " channels of " + count + " elements";
    }
}
