package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.Shape;
import dev.octet.quant.scale.Granularity;

/**
 * Which elements of a matrix share a scale, as it lies in memory. Blocks tile it from the first element; those at the far edges may be
 * smaller. Scales lie row-major over the grid of blocks.
 *
 * @param rows of the matrix
 * @param cols of the matrix
 * @param blockRows rows of a block, at least 1
 * @param blockCols columns of a block, at least 1
 */
public record Blocks(int rows, int cols, int blockRows, int blockCols) {
    /** The blocks of a matrix by a granularity that speaks of it as it lies. */
    public static Blocks of(Granularity granularity, int rows, int cols) {
        long[] block = granularity.blockShape(Shape.of(rows, cols));
        return new Blocks(rows, cols, (int) block[0], (int) block[1]);
    }

    /** One block of all elements. */
    public static Blocks whole(int rows, int cols) {
        return of(new Granularity.PerTensor(), rows, cols);
    }

    /** The same blocks of the transposed matrix. */
    public Blocks transposed() {
        return new Blocks(cols, rows, blockCols, blockRows);
    }

    /** Blocks above each other. */
    public int gridRows() {
        return Math.ceilDiv(rows, blockRows);
    }

    /** Blocks side by side. */
    public int gridCols() {
        return Math.ceilDiv(cols, blockCols);
    }

    /** Number of blocks. */
    public int count() {
        return gridRows() * gridCols();
    }

    /** Shape of the scales. */
    public Shape grid() {
        return Shape.of(gridRows(), gridCols());
    }

    /** Number of the block that element {@code [row, col]} is in. */
    public int at(int row, int col) {
        return row / blockRows * gridCols() + col / blockCols;
    }

    /**
     * Whether the scales are one for all, or one for each vector: along the columns, where rows are vectors, or else along the rows. A
     * square that holds whole vectors holds several of them, so it is not.
     */
    public boolean hasScalePerVector(boolean alongCols) {
        return count() == 1 || (alongCols ? blockRows == 1 && blockCols >= cols : blockCols == 1 && blockRows >= rows);
    }
}
