package dev.octet.quant.statistics;

import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * What was seen of one tensor over some samples. Immutable; {@link StatisticsAccumulator} makes them.
 *
 * @param count elements seen, all kinds
 * @param zeros elements that were +0 or -0
 * @param nans elements that were NaN
 * @param infinities elements that were infinite, of either sign
 * @param min least finite element; 0 when there is none
 * @param max greatest finite element; 0 when there is none
 * @param sumOfSquares of the finite elements, in double precision
 * @param histogram of the finite magnitudes other than zero
 * @param negatives the part of {@code histogram} that counts numbers below zero; null in files of Octet before it took them
 * @param channels of each channel of the last axis, as of the inputs of Linears; null where not taken
 * @param heads of each head of a query, key or value {@code [batch, heads, length, size]}; null where not taken
 */
public record TensorStatistics(
        long count,
        long zeros,
        long nans,
        long infinities,
        float min,
        float max,
        double sumOfSquares,
        LogHistogram histogram,
        @Nullable LogHistogram negatives,
        @Nullable ChannelStatistics channels,
        @Nullable ChannelStatistics heads) {
    /** Magnitudes from about here on are constants of masks; activations are far below. */
    public static final float LEAST_MASK = 1e30f;

    /** Scales of smaller magnitudes would be subnormal. */
    private static final double LEAST_AMAX = Float.MIN_NORMAL * 1024.0;

    /** Nothing seen yet. */
    public static final TensorStatistics EMPTY =
            new TensorStatistics(0, 0, 0, 0, 0, 0, 0, LogHistogram.EMPTY, LogHistogram.EMPTY, null, null);

    public TensorStatistics {
        if (zeros < 0 || nans < 0 || infinities < 0) {
            throw new IllegalArgumentException(
                    "negative count: zeros " + zeros + ", NaNs " + nans + ", infinities " + infinities);
        }
        long parts = Math.addExact(Math.addExact(Math.addExact(zeros, nans), infinities), histogram.total());
        if (count != parts) {
            throw new IllegalArgumentException(
                    "count is " + count + ", but zeros, NaNs, infinities and histogram make " + parts);
        }
        if (!(Float.isFinite(min) && Float.isFinite(max) && min <= max)) {
            throw new IllegalArgumentException("no range: min " + min + ", max " + max);
        }
        if (!(Double.isFinite(sumOfSquares) && sumOfSquares >= 0)) {
            throw new IllegalArgumentException("not a sum of squares: " + sumOfSquares);
        }
        checkRangeAgainstHistogram(min, max, histogram);
        if (negatives != null) {
            checkNegatives(min, max, histogram, negatives);
        }
    }

    /** Of magnitudes only: without {@link #negatives}, {@link #channels} and {@link #heads}. */
    public TensorStatistics(
            long count,
            long zeros,
            long nans,
            long infinities,
            float min,
            float max,
            double sumOfSquares,
            LogHistogram histogram) {
        this(count, zeros, nans, infinities, min, max, sumOfSquares, histogram, null, null, null);
    }

    private static void checkNegatives(float min, float max, LogHistogram histogram, LogHistogram negatives) {
        for (int b = Math.max(0, negatives.firstBin()); b <= negatives.lastBin(); b++) {
            if (negatives.count(b) > histogram.count(b)) {
                throw new IllegalArgumentException("bin " + b + " has " + negatives.count(b) + " negative numbers of "
                        + histogram.count(b) + " in all");
            }
        }
        int last = negatives.lastBin();
        boolean fits = last < 0 ? min >= 0 : min < 0 && LogHistogram.binOf(min) == last;
        if (!fits || (max <= 0 && negatives.total() != histogram.total())) {
            throw new IllegalArgumentException(
                    "range is " + min + " to " + max + ", but the negative numbers are " + negatives);
        }
    }

    private static void checkRangeAgainstHistogram(float min, float max, LogHistogram histogram) {
        float amax = Math.max(-min, max);
        int last = histogram.lastBin();
        if (last < 0 ? amax != 0 : amax == 0 || LogHistogram.binOf(amax) != last) {
            throw new IllegalArgumentException(
                    "greatest magnitude is " + amax + ", but the histogram has " + histogram);
        }
    }

    /** Why codes of these elements have no scale, of an input in words that follow its layer's name; empty where they have. */
    public Optional<String> whyNoScale() {
        if (count == 0) {
            return Optional.of("calibration never reached its input");
        }
        if (nans + infinities > 0) {
            return Optional.of("its input had " + (nans + infinities) + " NaN or infinite elements in calibration");
        }
        if (amax() < LEAST_AMAX) {
            return Optional.of("its input was zero in all of calibration");
        }
        return Optional.empty();
    }

    /** Greatest finite magnitude; 0 when there is none. */
    public float amax() {
        return Math.max(-min, max);
    }

    /** Elements that were finite, zeros among them. */
    public long finiteCount() {
        return count - nans - infinities;
    }

    /** Root of the mean square of the finite elements; 0 when there is none. */
    public double rms() {
        return finiteCount() == 0 ? 0 : Math.sqrt(sumOfSquares / finiteCount());
    }

    /**
     * Share (0..1) of the finite elements whose magnitude is above {@code limit}, estimated: exact but for the bin that
     * {@code limit} lies in, whose elements are taken to be spread evenly.
     */
    public double shareAbove(double limit) {
        if (finiteCount() == 0 || limit >= amax()) {
            return 0;
        }
        double above = 0;
        for (int b = histogram.lastBin(); b >= 0 && LogHistogram.upperEdge(b) > limit; b--) {
            double low = LogHistogram.lowerEdge(b);
            double high = Math.min(LogHistogram.upperEdge(b), Math.max(amax(), low));
            double part = limit <= low || high <= low ? 1 : (high - limit) / (high - low);
            above += histogram.count(b) * Math.clamp(part, 0, 1);
        }
        return above / finiteCount();
    }

    /**
     * Without the constants that masks add to scores, such as -3.4e38: all magnitudes of at least {@link #LEAST_MASK}, which then count as
     * infinities. Any other range would be lost beside them. The range ends at the edge of the largest bin that is left.
     */
    public TensorStatistics withoutMasks() {
        int first = LogHistogram.binOf(LEAST_MASK) + 1;
        if (histogram.lastBin() < first) {
            return this;
        }
        LogHistogram left = histogram.below(first);
        LogHistogram leftNegatives = negatives == null ? null : negatives.below(first);
        int last = left.lastBin();
        float most = last < 0 ? 0 : Math.nextDown((float) LogHistogram.upperEdge(last));
        return new TensorStatistics(
                count,
                zeros,
                nans,
                infinities + histogram.total() - left.total(),
                leftNegatives != null && leftNegatives.lastBin() < 0 ? Math.clamp(min, 0, most) : Math.max(min, -most),
                Math.min(max, most),
                Math.min(sumOfSquares, (double) left.total() * most * most),
                left);
    }

    /** Of both sets of samples together. Counts and range are exact; the sum of squares rounds once. */
    public TensorStatistics merge(TensorStatistics other) {
        boolean mine = finiteCount() > 0;
        boolean theirs = other.finiteCount() > 0;
        return new TensorStatistics(
                Math.addExact(count, other.count),
                zeros + other.zeros,
                nans + other.nans,
                infinities + other.infinities,
                !theirs || (mine && min <= other.min) ? min : other.min,
                !theirs || (mine && max >= other.max) ? max : other.max,
                sumOfSquares + other.sumOfSquares,
                histogram.plus(other.histogram),
                negatives == null || other.negatives == null ? null : negatives.plus(other.negatives),
                merged(other, channels, other.channels),
                merged(other, heads, other.heads));
    }

    private @Nullable ChannelStatistics merged(
            TensorStatistics other, @Nullable ChannelStatistics mine, @Nullable ChannelStatistics theirs) {
        if (mine != null && theirs != null) {
            return mine.merge(theirs);
        }
        return count == 0
                ? theirs
                : other.count == 0 ? mine : null; // of a part of the samples only, they would mislead
    }

    /**
     * Counts of the numbers above zero by magnitude; with {@link #negatives} the histogram of signed numbers, from which ranges of
     * asymmetric integers are chosen.
     *
     * @return null without {@link #negatives}
     */
    public @Nullable LogHistogram positives() {
        return negatives == null ? null : histogram.minus(negatives);
    }

    /** The same with statistics of channels and heads, each null for none. */
    public TensorStatistics with(@Nullable ChannelStatistics newChannels, @Nullable ChannelStatistics newHeads) {
        return new TensorStatistics(
                count, zeros, nans, infinities, min, max, sumOfSquares, histogram, negatives, newChannels, newHeads);
    }
}
