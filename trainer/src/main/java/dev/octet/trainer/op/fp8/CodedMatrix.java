package dev.octet.trainer.op.fp8;

import dev.octet.formats.tensor.Shape;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.scale.QuantScaleRule;
import dev.octet.quant.scale.WindowedScale;
import dev.octet.trainer.kernel.CudaProduct.ScaleMode;
import org.jspecify.annotations.Nullable;

/**
 * What the codes of a matrix mean, and where their scales come from.
 *
 * @param format one code per byte
 * @param blocks which codes share a scale
 * @param rule how the scales follow from the matrix itself; null when earlier steps left them: delayed scaling
 */
public record CodedMatrix(
        Float8Format format, Blocks blocks, @Nullable QuantScaleRule rule) {
    /** Whether the scale comes from earlier steps. */
    public boolean isDelayed() {
        return rule == null;
    }

    /** Whether the scale comes from a window of steps, which the cast reads and raises. */
    public boolean isWindowed() {
        return rule instanceof WindowedScale;
    }

    /** The blocks of a matrix of this granularity, as it lies in memory; scales lie as the grid of blocks. */
    public static Blocks blocks(Granularity granularity, int rows, int cols) {
        long[] block = granularity.blockShape(Shape.of(rows, cols));
        return Blocks.ofMatrix(rows, cols, Math.max(1, block[0]), Math.max(1, block[1]));
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

    /** Whether the scales are one for each {@link ScaleMode#BLOCK} elements of a row, or, where sums do not run along the columns, of a column. */
    boolean hasScalePerRun(boolean alongCols) {
        return alongCols
                ? blocks.blockRows() == 1 && blocks.blockCols() == ScaleMode.BLOCK
                : blocks.blockCols() == 1 && blocks.blockRows() == ScaleMode.BLOCK;
    }

    /** Whether the scales are one for each square with sides of {@link ScaleMode#BLOCK} elements. */
    boolean hasScalePerSquare() {
        return blocks.blockRows() == ScaleMode.BLOCK && blocks.blockCols() == ScaleMode.BLOCK;
    }
}
