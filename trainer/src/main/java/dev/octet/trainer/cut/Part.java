package dev.octet.trainer.cut;

import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.List;

/**
 * What a rank has of a tensor: ranges of one axis, one after another.
 *
 * @param whole shape of the whole tensor
 * @param axis that is cut
 * @param ranges ascending, within the axis
 */
public record Part(Shape whole, int axis, List<Range> ranges) {
    /**
     * A range of an axis.
     *
     * @param from its first element
     * @param to the first behind it
     */
    public record Range(long from, long to) {
        long size() {
            return to - from;
        }
    }

    public Part {
        ranges = List.copyOf(ranges);
        long end = 0;
        for (Range range : ranges) {
            if (range.from < end || range.to < range.from) {
                throw new IllegalArgumentException(ranges + " are not in order");
            }
            end = range.to;
        }
        if (axis < 0 || axis >= whole.rank() || end > whole.dim(axis)) {
            throw new IllegalArgumentException(ranges + " of axis " + axis + " of " + whole);
        }
    }

    /** Shape of the part. */
    public Shape shape() {
        long[] dims = whole.toArray();
        dims[axis] = ranges.stream().mapToLong(Range::size).sum();
        return Shape.of(dims);
    }

    /**
     * The part of a tensor: a view where its elements lie side by side, else a copy.
     *
     * @param tensor of the whole shape, whose elements are whole bytes
     * @param arena owns a copy
     */
    public Tensor of(Tensor tensor, Arena arena) {
        if (!tensor.shape().equals(whole)) {
            throw new IllegalArgumentException("'" + tensor.name() + "' is " + tensor.shape() + ", not " + whole);
        }
        TensorSpec spec = new TensorSpec(tensor.name(), tensor.dtype(), shape());
        long width = width(tensor);
        if (ranges.size() == 1 && outer() == 1) {
            Range only = ranges.getFirst();
            return new Tensor(spec, tensor.bytes().asSlice(only.from * width, only.size() * width));
        }
        Tensor part = Tensor.allocate(arena, spec);
        copy(tensor.bytes(), part.bytes(), width, true);
        return part;
    }

    /** Puts the part where it belongs in a whole tensor of the same type. */
    public void into(Tensor part, Tensor tensor) {
        copy(tensor.bytes(), part.bytes(), width(part), false);
    }

    /** Bytes of one element of the axis. */
    private long width(Tensor tensor) {
        long inner = 1;
        for (int i = axis + 1; i < whole.rank(); i++) {
            inner *= whole.dim(i);
        }
        return inner * tensor.dtype().bits() / Byte.SIZE;
    }

    private long outer() {
        long outer = 1;
        for (int i = 0; i < axis; i++) {
            outer *= whole.dim(i);
        }
        return outer;
    }

    private void copy(MemorySegment all, MemorySegment own, long width, boolean out) {
        long at = 0;
        for (long o = 0; o < outer(); o++) {
            for (Range range : ranges) {
                MemorySegment there = all.asSlice((o * whole.dim(axis) + range.from) * width, range.size() * width);
                MemorySegment here = own.asSlice(at, range.size() * width);
                (out ? here : there).copyFrom(out ? there : here);
                at += range.size() * width;
            }
        }
    }
}
