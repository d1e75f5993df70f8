package dev.octet.converter.compare;

import java.util.Optional;

/**
 * Detects weights in a wide float format that were once quantised: a code has at most 128 magnitudes, so elements that shared a scale have
 * at most 128 distinct magnitudes, whereas as many elements of a trained float weight have several hundred.
 *
 * <p>Examines up to 128 rows of 1024 columns. It finds scales shared by the whole sample, by tiles of 128 x 128 or by rows, if the group
 * has enough nonzero elements, and scales that are powers of two, which leave at most three bits in every significand. It does not find
 * small weights, other groups, or formats with more than 128 magnitudes. A weight that was made of few values (a mask, a table) looks the
 * same.
 */
final class FewMagnitudes {
    /** Magnitudes of an 8-bit code with a sign. */
    private static final int MOST = 128;

    /** Constant tensors prove nothing. */
    private static final int LEAST = 8;

    private static final int ENOUGH_IN_ROW = 512;
    private static final int ENOUGH_IN_TILE = 4096;
    private static final int TILE = 128;
    private static final int LOW_BITS_BEYOND_E4M3 = (1 << 20) - 1;

    private FewMagnitudes() {}

    /**
     * Describes the grid of the elements, for example {@code "127 magnitudes in each row"}; empty when they look like unquantised floats.
     *
     * @param sample finite values, {@code rows} times {@code cols}
     */
    static Optional<String> find(float[] sample, int rows, int cols) {
        int whole = most(sample, cols, rows, cols, ENOUGH_IN_TILE);
        if (whole > 0) {
            return Optional.of(whole + " magnitudes in all");
        }
        int tile = most(sample, cols, Math.min(TILE, rows), Math.min(TILE, cols), ENOUGH_IN_TILE);
        if (tile > 0) {
            return Optional.of("at most " + tile + " magnitudes in each 128 x 128 tile");
        }
        int row = most(sample, cols, 1, cols, ENOUGH_IN_ROW);
        if (row > 0) {
            return Optional.of("at most " + row + " magnitudes in each row");
        }
        return shortSignificands(sample) ? Optional.of("no significand of more than three bits") : Optional.empty();
    }

    /**
     * The largest number of magnitudes in a box of this size; 0 when a box has more than a code can have, or too few elements to decide.
     */
    private static int most(float[] sample, int cols, int boxRows, int boxCols, int enough) {
        int rows = sample.length / Math.max(1, cols);
        int most = 0;
        for (int r = 0; r + boxRows <= rows; r += boxRows) {
            for (int c = 0; c + boxCols <= cols; c += boxCols) {
                int found = magnitudes(sample, cols, r, c, boxRows, boxCols, enough);
                if (found == 0) {
                    return 0;
                }
                most = Math.max(most, found);
            }
        }
        return most;
    }

    private static int magnitudes(float[] sample, int cols, int row, int col, int boxRows, int boxCols, int enough) {
        int[] seen = new int[4 * MOST]; // open addressing, never more than a quarter full
        int distinct = 0;
        int notZero = 0;
        for (int r = row; r < row + boxRows; r++) {
            for (int c = col; c < col + boxCols; c++) {
                int bits = Float.floatToRawIntBits(sample[r * cols + c]) & Integer.MAX_VALUE;
                if (bits == 0) {
                    continue;
                }
                notZero++;
                int slot = (bits * 0x9E3779B9) >>> 23;
                while (seen[slot] != 0 && seen[slot] != bits) {
                    slot = (slot + 1) & (seen.length - 1);
                }
                if (seen[slot] == 0) {
                    seen[slot] = bits;
                    if (++distinct > MOST) {
                        return 0;
                    }
                }
            }
        }
        return notZero >= enough && distinct >= LEAST ? distinct : 0;
    }

    private static boolean shortSignificands(float[] sample) {
        int notZero = 0;
        int allBits = 0;
        for (float x : sample) {
            int bits = Float.floatToRawIntBits(x);
            if ((bits & LOW_BITS_BEYOND_E4M3) != 0) {
                return false;
            }
            if (x != 0) {
                notZero++;
                allBits |= bits & ~(bits - 1);
            }
        }
        // some significand must have bits at all: powers of two alone prove nothing
        return notZero >= ENOUGH_IN_ROW && (allBits & 0x7F_FFFF) != 0;
    }
}
