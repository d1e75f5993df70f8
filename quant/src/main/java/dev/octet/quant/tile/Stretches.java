package dev.octet.quant.tile;

import dev.octet.formats.tensor.Shape;

/**
 * A tile cut into stretches: neighbouring elements whose scales follow from one another by counting, so that a cast takes each stretch in
 * one call. They are as long as can be: the whole tile where groups end with the rows or rows share a scale, else a row.
 *
 * @param rows rows of the tile
 * @param cols columns of the tile
 * @param blockRows rows of a block
 * @param blockCols columns of a block, at most {@code cols}
 */
record Stretches(long rows, long cols, long blockRows, long blockCols) {
    /** Takes the stretches in the order of memory. */
    interface Visitor {
        /**
         * One stretch: element {@code first + i} has scale {@code scale + i / size}, for {@code i} in {@code 0 .. count - 1}.
         *
         * @param first index of the first element
         * @param count number of elements
         * @param scale index of the first scale
         * @param size elements that share a scale
         */
        void visit(long first, long count, long scale, long size);
    }

    static Stretches of(TileShape tile) {
        long[] block = tile.granularity().blockShape(Shape.of(tile.rows(), tile.cols()));
        return new Stretches(tile.rows(), tile.cols(), block[0], Math.min(block[1], tile.cols()));
    }

    /**
     * Gives stretches of at most {@code limit} elements where groups are small enough; cuts lie between groups and at even places of a
     * stretch.
     */
    void forEachUpTo(long limit, Visitor visitor) {
        forEach((first, count, scale, size) -> {
            long step = step(limit, count, size);
            for (long from = 0; from < count; from += step) {
                visitor.visit(first + from, Math.min(step, count - from), scale + from / size, size);
            }
        });
    }

    /** Number of elements in the longest stretch of {@link #forEachUpTo}. */
    long longestUpTo(long limit) {
        long[] longest = {0};
        forEach((_, count, _, size) -> longest[0] = Math.max(longest[0], Math.min(count, step(limit, count, size))));
        return longest[0];
    }

    private static long step(long limit, long count, long size) {
        long pair = 2 * size;
        return pair <= limit ? limit / pair * pair : count;
    }

    /** Gives the longest stretches. */
    void forEach(Visitor visitor) {
        if (rows == 0 || cols == 0) {
            return;
        }
        if (blockRows == 1 && cols % blockCols == 0) {
            visitor.visit(0, rows * cols, 0, blockCols);
        } else if (blockCols == cols) {
            for (long row = 0; row < rows; row += blockRows) {
                long count = Math.min(blockRows, rows - row) * cols;
                visitor.visit(row * cols, count, row / blockRows, count);
            }
        } else {
            long grid = Math.ceilDiv(cols, blockCols);
            for (long row = 0; row < rows; row++) {
                visitor.visit(row * cols, cols, row / blockRows * grid, blockCols);
            }
        }
    }
}
