package dev.octet.converter.checkpoint;

import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import java.util.ArrayList;
import java.util.List;

/**
 * Rows of one matrix of a weight, of which there is one, or one for each expert.
 *
 * @param matrix which of the weight's matrices
 * @param fromRow first row, counted over all matrices
 * @param rows how many
 */
record Tile(long matrix, long fromRow, long rows) {
    /**
     * Elements aimed at: as BF16 with its codes and scales they stay in the second-level cache of a core between their first and last use.
     */
    private static final long ELEMENTS = 1L << 18;

    /** Elements of a tile at most: what one thread's share of memory holds as F32 with codes on both sides. */
    static final long MAX_ELEMENTS = 8L << 20;

    /** Columns at most of a weight that is cut by {@code granularity}: a row of blocks is one tile. */
    static long maxCols(Granularity granularity) {
        return MAX_ELEMENTS / granularity.rowAlignment();
    }

    /** Whether this is the first of its matrix. */
    boolean startsMatrix(Blocks weight) {
        return fromRow % weight.rows() == 0;
    }

    /** Cuts a weight's matrices into tiles that start at borders of blocks of all of {@code granularities}. */
    static List<Tile> of(Blocks weight, Granularity... granularities) {
        return of(weight, 1, granularities);
    }

    /** The same, of tiles that start at multiples of {@code rowsTogether} rows, too. */
    static List<Tile> of(Blocks weight, int rowsTogether, Granularity... granularities) {
        long alignment = rowsTogether;
        for (Granularity g : granularities) {
            alignment = leastCommonMultiple(alignment, g.rowAlignment());
        }
        long rows = Math.max(alignment, ELEMENTS / Math.max(1, weight.cols()) / alignment * alignment);
        List<Tile> tiles = new ArrayList<>();
        for (long matrix = 0; matrix < weight.matrices(); matrix++) {
            for (long row = 0; row < weight.rows(); row += rows) {
                tiles.add(new Tile(matrix, matrix * weight.rows() + row, Math.min(rows, weight.rows() - row)));
            }
        }
        return tiles;
    }

    private static long leastCommonMultiple(long a, long b) {
        long x = a;
        long y = b;
        while (y != 0) {
            long rest = x % y;
            x = y;
            y = rest;
        }
        return a / x * b;
    }
}
