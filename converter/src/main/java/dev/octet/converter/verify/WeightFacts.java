package dev.octet.converter.verify;

import dev.octet.quant.layout.StoredWeight;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.QuantType;
import java.io.Serializable;
import org.jspecify.annotations.Nullable;

/**
 * What one walk over a quantised weight found.
 *
 * @param histogram how often each code occurs: 256 of them, 16 for four bits
 * @param blocks groups of elements with one scale
 * @param zeroBlocks the blocks that hold only zeros
 * @param squares sum of squares of the dequantised values; NaN without usable scales
 * @param comparison with the original under several readings; null when the original has no weight of that shape, or nothing to explain
 */
record WeightFacts(
        StoredWeight weight,
        Histogram histogram,
        long blocks,
        long zeroBlocks,
        double squares,
        @Nullable Comparison comparison) {
    /**
     * How far the weight is from the original, under several readings of its scales. Errors are relative: root of the sum of squared
     * differences over that of the original's squares; NaN where a reading does not apply.
     *
     * @param asStored code times scale
     * @param reciprocal code over scale
     * @param transposed with the grid of scales transposed, for square grids of blocks
     * @param anyScale with the best scale for each block: the best that the codes can express
     */
    record Comparison(double asStored, double reciprocal, double transposed, double anyScale) implements Serializable {
        /** Largest error that rounding alone makes: half a step is 2^-4 of a value for E4M3, and a quarter for E2M1. */
        static final double ROUNDING = 0.25;

        /**
         * Whether the transposed grid fits, and clearly better than the one stored: the scales of a weight are much the same everywhere, so
         * that both may fit.
         */
        boolean isTransposed() {
            return transposed <= ROUNDING && transposed < 0.7 * asStored;
        }

        /** Whether the weight as stored is the original but for rounding. */
        boolean agrees() {
            return asStored <= ROUNDING;
        }
    }

    /** Counts of codes. */
    static final class Histogram {
        private final long[] counts;

        Histogram(long[] counts) {
            this.counts = counts.clone();
        }

        /** All of them. */
        long[] counts() {
            return counts.clone();
        }

        /** How often {@code code} occurs. */
        long count(int code) {
            return counts[code];
        }

        /** Number of elements. */
        long total() {
            long total = 0;
            for (long count : counts) {
                total += count;
            }
            return total;
        }

        /** How many different codes occur. */
        int distinct() {
            int distinct = 0;
            for (long count : counts) {
                distinct += count > 0 ? 1 : 0;
            }
            return distinct;
        }
    }

    /** How many codes are NaN or infinite. */
    long notFinite() {
        Float8Format format = weight.codes().minifloat().orElse(null);
        if (format == null) {
            return 0;
        }
        long sum = 0;
        for (int code = 0; code < format.codeCount(); code++) {
            sum += Float.isFinite(format.decode(code)) ? 0 : histogram.count(code);
        }
        return sum;
    }

    /** How many codes have the largest magnitude there is. */
    long atLimit() {
        Float8Format format = weight.codes().minifloat().orElse(null);
        if (format == null) {
            return histogram.count(127) + histogram.count(129);
        }
        return histogram.count(format.maxCode()) + histogram.count(format.maxCode() | format.signBit());
    }

    /** The largest finite magnitude of the codes that occur. */
    float largest() {
        float largest = 0;
        for (int code = 0; code < (weight.codes() == QuantType.E2M1 ? 16 : 256); code++) {
            float value = Math.abs(value(weight.codes(), code));
            if (histogram.count(code) > 0 && Float.isFinite(value)) {
                largest = Math.max(largest, value);
            }
        }
        return largest;
    }

    /** Root mean square of the dequantised values. */
    double rms() {
        return Math.sqrt(squares / histogram.total());
    }

    /** The number a code represents, before its scale. */
    static float value(QuantType codes, int code) {
        return codes.minifloat().map(f -> f.decode(code)).orElse((float) (byte) code);
    }
}
