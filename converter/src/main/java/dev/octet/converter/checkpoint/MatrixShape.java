package dev.octet.converter.checkpoint;

import dev.octet.formats.tensor.Shape;
import dev.octet.quant.block.Granularity;

/**
 * A weight seen as matrices one after the other: {@code [rows, cols]} once, or once for each expert. Vectors are one row, scalars one
 * element.
 *
 * @param count number of matrices
 * @param rows rows of each
 * @param cols columns of each
 */
record MatrixShape(long count, long rows, long cols) {
    /** A weight's matrices: the last two axes; all axes before them count matrices. */
    static MatrixShape of(Shape shape) {
        int rank = shape.rank();
        long cols = rank == 0 ? 1 : shape.dim(-1);
        long rows = rank < 2 ? 1 : shape.dim(-2);
        long count = 1;
        for (int axis = 0; axis < rank - 2; axis++) {
            count *= shape.dim(axis);
        }
        return new MatrixShape(count, rows, cols);
    }

    /** All rows of all matrices. */
    long allRows() {
        return count * rows;
    }

    /** Number of scales in all rows of one matrix before {@code row}, which starts a block. */
    static long scalesBefore(Granularity granularity, long row, long cols) {
        return switch (granularity) {
            case Granularity.PerTensor() -> 0;
            case Granularity.PerChannel _, Granularity.PerToken() -> row;
            case Granularity.PerGroup(int axis, int size) -> row * Math.ceilDiv(cols, (long) innermost(axis, size));
            case Granularity.Mx(int axis, int size) -> row * Math.ceilDiv(cols, (long) innermost(axis, size));
            case Granularity.PerBlock(int blockRows, int blockCols) ->
                row / blockRows * Math.ceilDiv(cols, (long) blockCols);
        };
    }

    /** Rows that share a scale, so that tiles must start at a multiple of it. */
    static long rowAlignment(Granularity granularity) {
        return granularity instanceof Granularity.PerBlock(int blockRows, int _) ? blockRows : 1;
    }

    /** Number of scales of one matrix. */
    long scalesOfOne(Granularity granularity) {
        return granularity.scaleShape(Shape.of(rows, cols)).elementCount();
    }

    private static int innermost(int axis, int size) {
        if (axis != -1 && axis != 1) {
            throw new IllegalArgumentException("groups along axis " + axis + " of a weight");
        }
        return size;
    }
}
