package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.Shape;
import dev.octet.quant.recipe.OperandForm.Span;

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
    /**
     * The blocks of an operand.
     *
     * @param alongCols whether the product sums over the matrix's columns, so that vectors are rows; otherwise they are columns
     */
    public static Blocks of(Span span, int rows, int cols, boolean alongCols) {
        int allRows = Math.max(1, rows);
        int allCols = Math.max(1, cols);
        return switch (span) {
            case Span.Whole() -> new Blocks(rows, cols, allRows, allCols);
            case Span.Vector() -> alongCols ? new Blocks(rows, cols, 1, allCols) : new Blocks(rows, cols, allRows, 1);
            case Span.Run(int size) -> alongCols ? new Blocks(rows, cols, 1, size) : new Blocks(rows, cols, size, 1);
            case Span.Square(int size) -> new Blocks(rows, cols, size, size);
        };
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
