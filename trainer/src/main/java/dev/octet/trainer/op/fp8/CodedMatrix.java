package dev.octet.trainer.op.fp8;

import dev.octet.quant.block.Blocks;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.recipe.OperandForm.Span;

/**
 * What the codes of a matrix mean.
 *
 * @param format one code per byte
 * @param blocks which codes share a scale
 */
public record CodedMatrix(Float8Format format, Blocks blocks) {
    /**
     * The blocks of an operand, as it lies in memory; scales lie as the grid of blocks.
     *
     * @param alongCols whether the product sums over the matrix's columns, so that vectors are rows; otherwise they are columns
     */
    public static Blocks blocks(Span span, int rows, int cols, boolean alongCols) {
        int allRows = Math.max(1, rows);
        int allCols = Math.max(1, cols);
        return switch (span) {
            case Span.Whole() -> whole(rows, cols);
            case Span.Vector() ->
                alongCols ? Blocks.ofMatrix(rows, cols, 1, allCols) : Blocks.ofMatrix(rows, cols, allRows, 1);
            case Span.Run(int size) ->
                alongCols ? Blocks.ofMatrix(rows, cols, 1, size) : Blocks.ofMatrix(rows, cols, size, 1);
            case Span.Square(int size) -> Blocks.ofMatrix(rows, cols, size, size);
        };
    }

    /** One scale for a matrix. */
    static Blocks whole(int rows, int cols) {
        return Blocks.ofMatrix(rows, cols, Math.max(1, rows), Math.max(1, cols));
    }

    /**
     * Whether the scales are one for all, or one for each vector: along the columns, where rows are vectors, or else along the rows. A
     * square that holds whole vectors holds several of them, so it is not.
     */
    boolean hasScalePerVector(boolean alongCols) {
        return blocks.scaleCount() == 1
                || (alongCols
                        ? blocks.blockRows() == 1 && blocks.blockCols() >= blocks.cols()
                        : blocks.blockCols() == 1 && blocks.blockRows() >= blocks.rows());
    }
}
