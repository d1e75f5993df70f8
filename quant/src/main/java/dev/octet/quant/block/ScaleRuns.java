package dev.octet.quant.block;

import java.util.ArrayList;
import java.util.List;

/**
 * Some elements of a tensor in the order of memory, cut into the longest runs of neighbours whose scales follow by counting, so that a
 * cast takes each run in one call. Neighbouring axes are merged wherever that changes no element's scale: a tensor with one scale is one
 * run, and so is a matrix with a scale for each row or for groups that end with the rows; otherwise a run ends with a row.
 *
 * <p>Elements and scales have their numbers in the whole tensor. Immutable.
 */
public final class ScaleRuns {
    /** Shape of the tensor, extents of its blocks and strides of its scales, after merging. */
    private final long[] dims;

    private final long[] blocks;
    private final long[] strides;

    private final long from;
    private final long to;
    private final long firstScale;
    private final long scaleCount;

    /** Takes runs. */
    public interface Visitor {
        /**
         * One run: element {@code first + i} has scale {@code scale + i / size}, for {@code i} in {@code 0 .. count - 1}.
         *
         * @param first index of the first element
         * @param count number of elements
         * @param scale index of the first scale
         * @param size neighbouring elements with one scale; may exceed {@code count}
         */
        void visit(long first, long count, long scale, long size);
    }

    /** Takes runs of one scale. */
    public interface GroupVisitor {
        /** Elements {@code first .. first + count - 1} have scale {@code scale}. */
        void visit(long first, long count, long scale);
    }

    private ScaleRuns(long[] dims, long[] blocks, long elements, long scaleCount) {
        this.dims = dims;
        this.blocks = blocks;
        this.strides = new long[dims.length];
        long stride = 1;
        for (int axis = dims.length - 1; axis >= 0; axis--) {
            strides[axis] = stride;
            stride *= Math.ceilDiv(dims[axis], blocks[axis]);
        }
        this.from = 0;
        this.to = elements;
        this.firstScale = 0;
        this.scaleCount = scaleCount;
    }

    private ScaleRuns(ScaleRuns of, long from, long to) {
        this.dims = of.dims;
        this.blocks = of.blocks;
        this.strides = of.strides;
        this.from = from;
        this.to = to;
        long[] ends = {Long.MAX_VALUE, 0};
        forEach((_, count, scale, size) -> {
            ends[0] = Math.min(ends[0], scale);
            ends[1] = Math.max(ends[1], scale + Math.ceilDiv(count, size));
        });
        this.firstScale = from < to ? ends[0] : 0;
        this.scaleCount = from < to ? ends[1] - ends[0] : 0;
    }

    static ScaleRuns of(Blocks tensor) {
        if (tensor.elements() == 0) {
            return new ScaleRuns(new long[] {1}, new long[] {1}, 0, tensor.scaleCount());
        }
        int rank = tensor.shape().rank();
        long[] dims = new long[Math.max(1, rank)];
        long[] blocks = new long[dims.length];
        dims[0] = 1;
        blocks[0] = 1;
        int top = -1; // axes are pushed innermost first; dims[top] is the outermost so far
        for (int axis = rank - 1; axis >= 0; axis--) {
            long dim = tensor.shape().dim(axis);
            long extent = Math.min(tensor.blockShape().dim(axis), dim); // so that products of extents cannot overflow
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
        int merged = Math.max(1, top + 1);
        return new ScaleRuns(reversed(dims, merged), reversed(blocks, merged), tensor.elements(), tensor.scaleCount());
    }

    private static long[] reversed(long[] values, int length) {
        long[] result = new long[length];
        for (int i = 0; i < length; i++) {
            result[i] = values[length - 1 - i];
        }
        return result;
    }

    /** The same of elements {@code first .. end - 1} of the tensor only. */
    public ScaleRuns part(long first, long end) {
        return first == from && end == to ? this : new ScaleRuns(this, first, end);
    }

    /** These elements in parts of {@code length}, the last one shorter. */
    public List<ScaleRuns> cut(long length) {
        List<ScaleRuns> parts = new ArrayList<>();
        for (long at = from; at < to; at += length) {
            parts.add(part(at, Math.min(to, at + length)));
        }
        return parts;
    }

    /** Index of the first element. */
    public long from() {
        return from;
    }

    /** Number of elements. */
    public long elements() {
        return to - from;
    }

    /** Index of the first scale. */
    public long firstScale() {
        return firstScale;
    }

    /** Number of scales in the smallest range that holds those of all elements. */
    public long scaleCount() {
        return scaleCount;
    }

    /** Gives the runs, in order. */
    public void forEach(Visitor visitor) {
        int last = dims.length - 1;
        long rowLength = dims[last];
        long size = blocks[last];
        for (long at = from; at < to; ) {
            long row = at / rowLength;
            long column = at - row * rowLength;
            long end = Math.min(to, at - column + rowLength);
            long scale = rowScale(row) + column / size;
            long within = column % size;
            if (within != 0) { // the rest of a block that begins before
                long count = Math.min(end - at, size - within);
                visitor.visit(at, count, scale, count);
                at += count;
                scale++;
            }
            if (at < end) {
                visitor.visit(at, end - at, scale, size);
                at = end;
            }
        }
    }

    /** Gives the runs cut at the borders of blocks, in order. */
    public void forEachGroup(GroupVisitor visitor) {
        forEach((first, count, scale, size) -> {
            for (long at = 0; at < count; at += size) {
                visitor.visit(first + at, Math.min(size, count - at), scale + at / size);
            }
        });
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
