package dev.octet.pipeline.history;

import java.util.List;

/**
 * How FP8 did by tensor and step, as the page draws it.
 *
 * @param width steps in a column
 * @param columns first step of each column, ascending; columns without a measurement are left out
 * @param rows tensors in the order of the file
 * @param left tensors that are not among the rows, which hold the worst
 */
public record Fp8Map(long width, List<Long> columns, List<Row> rows, int left) {
    /** Nothing was measured. */
    static final Fp8Map NONE = new Fp8Map(1, List.of(), List.of(), 0);

    /** Decades below 1 that a level can tell apart; smaller shares have the lowest level. */
    private static final int DECADES = 7;

    /** Levels of shares above 0, in one byte with {@link #UNKNOWN} and {@link #ZERO}. */
    private static final int LEVELS = 253;

    private static final int UNKNOWN = 0;
    private static final int ZERO = 1;

    /**
     * A tensor. Shares are the largest of a column, as bytes in Base64: 0 for not measured, 1 for zero, and from 2 to 255 the logarithm from 1e-7 to 1.
     *
     * @param layer module
     * @param kind {@code input}, {@code weight} or {@code grad_output}
     * @param format name of the number format
     * @param mostClipped largest share of clipped elements
     * @param mostUnderflowed largest share of elements that became 0
     * @param clipped shares by column
     * @param underflowed shares by column
     */
    public record Row(
            String layer,
            String kind,
            String format,
            double mostClipped,
            double mostUnderflowed,
            String clipped,
            String underflowed) {}

    public Fp8Map {
        columns = List.copyOf(columns);
        rows = List.copyOf(rows);
    }

    /** The level of a share, 0..1; NaN where it was not measured. */
    static int level(double share) {
        if (Double.isNaN(share)) {
            return UNKNOWN;
        }
        if (share <= 0) {
            return ZERO;
        }
        double up = 1 + Math.max(-DECADES, Math.log10(Math.min(1, share))) / DECADES;
        return ZERO + 1 + (int) Math.round(up * LEVELS);
    }
}
