package dev.octet.quant.scale;

import dev.octet.formats.tensor.Shape;
import dev.octet.quant.block.Granularity;

/**
 * The way from elements to scales, made for walking a tensor in memory order: the shape with neighbouring axes merged wherever
 * that changes no element's scale, so that a tensor with one scale is one long row and rows are as long as can be.
 *
 * <p>Elements are numbered row-major, and so are scales.
 */
public final class ScaleGrid {
    private final long[] dims;
    private final long[] blocks;
    private final long[] strides;
    private final long elementCount;
    private final long scaleCount;

    /** Takes runs of neighbouring elements in the order of memory. */
    public interface Visitor {
        /** Elements {@code first .. first + count - 1} share scale {@code scale}. */
        void shared(long first, long count, long scale);

        /** Element {@code first + i} has scale {@code scale + i}, for {@code i} in {@code 0 .. count - 1}. */
        void each(long first, long count, long scale);
    }

    /** Scales {@code first .. first + count - 1}. */
    public record Range(long first, long count) {}

    private ScaleGrid(long[] dims, long[] blocks, long elementCount, long scaleCount) {
        this.dims = dims;
        this.blocks = blocks;
        this.elementCount = elementCount;
        this.scaleCount = scaleCount;
        this.strides = new long[dims.length];
        long stride = 1;
        for (int axis = dims.length - 1; axis >= 0; axis--) {
            strides[axis] = stride;
            stride *= Math.ceilDiv(dims[axis], blocks[axis]);
        }
    }

    /**
     * The grid of a tensor of shape {@code shape}.
     *
     * @throws IllegalArgumentException when the granularity names an axis that the shape lacks
     */
    public static ScaleGrid of(Shape shape, Granularity granularity) {
        long[] block = granularity.blockShape(shape);
        long elementCount = shape.elementCount();
        long scaleCount = granularity.scaleShape(shape).elementCount();
        if (elementCount == 0) {
            return new ScaleGrid(new long[] {0}, new long[] {1}, 0, scaleCount);
        }
        long[] dims = new long[Math.max(1, shape.rank())];
        long[] blocks = new long[dims.length];
        dims[0] = 1;
        blocks[0] = 1;
        int top = -1; // axes are pushed innermost first; dims[top] is the outermost so far
        for (int axis = shape.rank() - 1; axis >= 0; axis--) {
            long dim = shape.dim(axis);
            long extent = Math.min(block[axis], dim); // so that products of extents cannot overflow
            if (top >= 0 && blocks[top] == dims[top]) {
                blocks[top] = extent * dims[top]; // inner axis has one block: it only lengthens the outer one
                dims[top] *= dim;
            } else if (top >= 0 && extent == 1 && dims[top] % blocks[top] == 0) {
                dims[top] *= dim; // inner blocks end with the row: the next row's follow on
            } else {
                top++;
                dims[top] = dim;
                blocks[top] = extent;
            }
        }
        int rank = Math.max(1, top + 1);
        return new ScaleGrid(reversed(dims, rank), reversed(blocks, rank), elementCount, scaleCount);
    }

    private static long[] reversed(long[] values, int length) {
        long[] result = new long[length];
        for (int i = 0; i < length; i++) {
            result[i] = values[length - 1 - i];
        }
        return result;
    }

    /** Number of elements of the tensor. */
    public long elementCount() {
        return elementCount;
    }

    /** Number of scales. */
    public long scaleCount() {
        return scaleCount;
    }

    /** The smallest range with all scales of elements {@code from .. to - 1}; empty when there are no elements. */
    public Range scalesOf(long from, long to) {
        long[] ends = {Long.MAX_VALUE, 0};
        forEachRun(from, to, new Visitor() {
            @Override
            public void shared(long first, long count, long scale) {
                each(first, 1, scale);
            }

            @Override
            public void each(long first, long count, long scale) {
                ends[0] = Math.min(ends[0], scale);
                ends[1] = Math.max(ends[1], scale + count);
            }
        });
        return from < to ? new Range(ends[0], ends[1] - ends[0]) : new Range(0, 0);
    }

    /** Gives the runs that make up elements {@code from .. to - 1}, in order. */
    public void forEachRun(long from, long to, Visitor visitor) {
        int last = dims.length - 1;
        long rowLength = dims[last];
        long position = from;
        while (position < to) {
            long row = position / rowLength;
            long column = position - row * rowLength;
            long end = Math.min(to, (row + 1) * rowLength);
            long rowScale = rowScale(row);
            if (blocks[last] == 1) {
                visitor.each(position, end - position, rowScale + column);
                position = end;
            } else {
                position = visitBlocks(position, column, end, rowScale, visitor);
            }
        }
    }

    private long visitBlocks(long from, long fromColumn, long end, long rowScale, Visitor visitor) {
        long size = blocks[dims.length - 1];
        long position = from;
        long column = fromColumn;
        while (position < end) {
            long block = column / size;
            long count = Math.min(end - position, (block + 1) * size - column);
            visitor.shared(position, count, rowScale + block);
            position += count;
            column += count;
        }
        return position;
    }

    /** Index of the first scale of a row, a row being one line along the last merged axis. */
    private long rowScale(long row) {
        long scale = 0;
        long rest = row;
        for (int axis = dims.length - 2; axis >= 0; axis--) {
            long outer = rest / dims[axis];
            scale += (rest - outer * dims[axis]) / blocks[axis] * strides[axis];
            rest = outer;
        }
        return scale;
    }
}
