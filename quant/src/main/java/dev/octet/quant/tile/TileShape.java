package dev.octet.quant.tile;

import dev.octet.formats.tensor.Shape;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.QuantType;

/**
 * Whole rows of a matrix, starting at a border of its blocks.
 *
 * @param rows number of rows
 * @param cols number of columns, those of the matrix
 * @param granularity which elements share a scale
 */
public record TileShape(long rows, long cols, Granularity granularity) {
    /** Number of elements. */
    public long elements() {
        return rows * cols;
    }

    /** Number of scales; they are a run of the matrix's scales, row-major over its blocks. */
    public long scaleCount() {
        return granularity.scaleShape(Shape.of(rows, cols)).elementCount();
    }

    /** Bytes that the tile's codes take. */
    public long codeBytes(QuantType codes) {
        return codes == QuantType.E2M1 ? Math.ceilDiv(elements(), 2L) : elements();
    }
}
