package dev.octet.quant.block;

import dev.octet.formats.tensor.Shape;

/**
 * The map from the elements of a tensor to their scales. Blocks of {@code blockShape} tile the tensor from the origin; those at the far
 * edges may overhang it. Elements are numbered row-major, and so are the scales over the grid of blocks:
 * {@code scaleOf([i0, i1, ..]) = [i0 / blockShape[0], i1 / blockShape[1], ..]}.
 *
 * <p>Rows, columns and matrices are those of the two innermost axes; a vector is one row, a scalar one element.
 *
 * @param shape of the tensor
 * @param blockShape extent of a block along each axis, at least 1
 * @param scaleShape of the tensor of scales, of one element for each block; axes along which there is one block may be missing
 */
public record Blocks(Shape shape, Shape blockShape, Shape scaleShape) {
    /** @throws IllegalArgumentException when the shapes do not fit each other */
    public Blocks {
        if (shape.rank() != blockShape.rank()) {
            throw new IllegalArgumentException("blocks of shape " + blockShape + " in a tensor of shape " + shape);
        }
        long blocks = 1;
        for (int axis = 0; axis < shape.rank(); axis++) {
            if (blockShape.dim(axis) < 1) {
                throw new IllegalArgumentException("blocks of shape " + blockShape);
            }
            blocks *= Math.ceilDiv(shape.dim(axis), blockShape.dim(axis));
        }
        if (blocks != 0 && blocks != scaleShape.elementCount()) {
            throw new IllegalArgumentException(blocks + " blocks, scales of shape " + scaleShape);
        }
    }

    /**
     * The blocks of a tensor.
     *
     * @throws IllegalArgumentException when the granularity names an axis that the shape lacks
     */
    public static Blocks of(Shape shape, Granularity granularity) {
        return new Blocks(shape, Shape.of(granularity.blockShape(shape)), granularity.scaleShape(shape));
    }

    /** The blocks of a matrix; scales have the shape of their grid. Extents of blocks are at least 1. */
    public static Blocks ofMatrix(long rows, long cols, long blockRows, long blockCols) {
        return new Blocks(
                Shape.of(rows, cols),
                Shape.of(blockRows, blockCols),
                Shape.of(Math.ceilDiv(rows, blockRows), Math.ceilDiv(cols, blockCols)));
    }

    /**
     * The blocks of a weight whose matrices each have scales of their own, one matrix after the other: {@code [rows, cols]} once, or once for
     * each expert. The shape becomes {@code [matrices, rows, cols]}, that of the scales {@code [matrices, scales of one]}.
     *
     * @param granularity of one matrix
     */
    public static Blocks ofEachMatrix(Shape shape, Granularity granularity) {
        Shape matrix = Shape.of(rows(shape), cols(shape));
        Blocks one = of(matrix, granularity);
        return new Blocks(
                Shape.of(matrices(shape), matrix.dim(0), matrix.dim(1)),
                Shape.of(1, one.blockRows(), one.blockCols()),
                Shape.of(matrices(shape), one.scaleCount()));
    }

    /** The same blocks of the transposed matrix. */
    public Blocks transposed() {
        return ofMatrix(cols(), rows(), blockCols(), blockRows());
    }

    /** Number of elements of the tensor. */
    public long elements() {
        return shape.elementCount();
    }

    /** Number of scales. */
    public long scaleCount() {
        return scaleShape.elementCount();
    }

    /** Rows of a matrix. */
    public long rows() {
        return rows(shape);
    }

    /** Columns of a matrix. */
    public long cols() {
        return cols(shape);
    }

    /** Number of matrices. */
    public long matrices() {
        return matrices(shape);
    }

    /** Rows of all matrices. */
    public long allRows() {
        return matrices() * rows();
    }

    /** Rows of a block. */
    public long blockRows() {
        return rows(blockShape);
    }

    /** Columns of a block. */
    public long blockCols() {
        return cols(blockShape);
    }

    /** Blocks above each other in a matrix. */
    public long gridRows() {
        return Math.ceilDiv(rows(), blockRows());
    }

    /** Blocks side by side in a matrix. */
    public long gridCols() {
        return Math.ceilDiv(cols(), blockCols());
    }

    /** Index of the scale of element {@code element}. */
    public long scaleOf(long element) {
        long scale = 0;
        long stride = 1;
        long rest = element;
        for (int axis = shape.rank() - 1; axis >= 0; axis--) {
            long dim = Math.max(1, shape.dim(axis));
            long block = blockShape.dim(axis);
            scale += rest % dim / block * stride;
            rest /= dim;
            stride *= Math.ceilDiv(dim, block);
        }
        return scale;
    }

    /** Index of the first scale of a row, counted over all matrices. */
    public long scaleOfRow(long row) {
        long inGrid = row / rows() * Math.max(1, gridRows()) + row % rows() / blockRows();
        return inGrid * Math.max(1, gridCols());
    }

    /** All elements, in runs. */
    public ScaleRuns runs() {
        return ScaleRuns.of(this);
    }

    /** Elements {@code from .. to - 1}, in runs. */
    public ScaleRuns runs(long from, long to) {
        return runs().part(from, to);
    }

    /** Rows of a matrix of a tensor of shape {@code shape}. */
    public static long rows(Shape shape) {
        return shape.rank() < 2 ? 1 : shape.dim(-2);
    }

    /** Columns of a matrix of a tensor of shape {@code shape}. */
    public static long cols(Shape shape) {
        return shape.rank() == 0 ? 1 : shape.dim(-1);
    }

    private static long matrices(Shape shape) {
        long count = 1;
        for (int axis = 0; axis < shape.rank() - 2; axis++) {
            count *= shape.dim(axis);
        }
        return count;
    }
}
