package dev.octet.formats.model;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * Where the elements of a tensor lie that need not be one run of bytes: boxes of elements, each at regular distances in a file.
 *
 * <p>All counts are in elements of a frame: a shape whose elements are those of the tensor, in the same row-major order. It is the tensor's own shape, or flat
 * ([n]) where a file holds a tensor's elements as a vector.
 */
public final class Pieces {
    private final long[] frame;
    private final int width;
    private final List<Piece> all;

    /** A box of elements and the distances between them in a file. */
    public static final class Piece {
        private final Path file;
        private final long position;
        private final long[] from;
        private final long[] size;
        private final long[] stride;

        private Piece(Path file, long position, long[] from, long[] size, long[] stride) {
            this.file = file;
            this.position = position;
            this.from = from;
            this.size = size;
            this.stride = stride;
        }

        /** Its file. */
        public Path file() {
            return file;
        }

        /** First byte of its first element, counted from the start of the file. */
        public long position() {
            return position;
        }

        /** First element of the frame along an axis. */
        public long from(int axis) {
            return from[axis];
        }

        /** Number of elements along an axis. */
        public long size(int axis) {
            return size[axis];
        }

        /** Bytes from one element to the next along an axis; 0 where all are the same element. */
        public long stride(int axis) {
            return stride[axis];
        }

        private long volume() {
            long n = 1;
            for (long s : size) {
                n *= s;
            }
            return n;
        }

        private boolean overlaps(Piece other) {
            for (int k = 0; k < from.length; k++) {
                if (from[k] >= other.from[k] + other.size[k] || other.from[k] >= from[k] + size[k]) {
                    return false;
                }
            }
            return true;
        }
    }

    private Pieces(long[] frame, int width, List<Piece> all) {
        this.frame = frame;
        this.width = width;
        this.all = List.copyOf(all);
    }

    /**
     * All elements in one run, row-major.
     *
     * @param position first byte in the file
     * @throws IllegalArgumentException for a type of less than a byte
     */
    public static Pieces of(Path file, long position, DType dtype, Shape shape) {
        return of(file, position, dtype, shape, rowMajor(shape.toArray()));
    }

    /**
     * Elements at regular distances.
     *
     * @param position first byte of the first element in the file
     * @param strides elements from one to the next along each axis, at least 0
     * @throws IllegalArgumentException for a type of less than a byte
     * @throws ArithmeticException when a distance in bytes is beyond a {@code long}
     */
    public static Pieces of(Path file, long position, DType dtype, Shape shape, long[] strides) {
        if (dtype.bits() % Byte.SIZE != 0) {
            throw new IllegalArgumentException(dtype + " elements are less than a byte");
        }
        int width = dtype.bits() / Byte.SIZE;
        long[] dims = shape.toArray();
        long[] bytes = new long[dims.length];
        for (int k = 0; k < dims.length; k++) {
            bytes[k] = Math.multiplyExact(strides[k], width);
        }
        Piece whole = new Piece(file, position, new long[dims.length], dims, bytes);
        return new Pieces(dims, width, shape.elementCount() == 0 ? List.of() : List.of(whole));
    }

    /** Strides in elements of a tensor whose elements follow each other in row-major order. */
    public static long[] rowMajor(long[] dims) {
        long[] strides = new long[dims.length];
        long step = 1;
        for (int k = dims.length - 1; k >= 0; k--) {
            strides[k] = step;
            step *= dims[k];
        }
        return strides;
    }

    /** Number of axes of the frame. */
    public int rank() {
        return frame.length;
    }

    /** Elements of the frame along an axis. */
    public long dim(int axis) {
        return frame[axis];
    }

    /** Bytes of an element. */
    public int width() {
        return width;
    }

    /** The boxes, in the order of their first elements. */
    public List<Piece> all() {
        return all;
    }

    /** Their files. */
    public Set<Path> files() {
        Set<Path> files = new LinkedHashSet<>();
        all.forEach(p -> files.add(p.file));
        return files;
    }

    /** The one run of bytes that is all of the tensor; empty when its elements lie apart or in another order. */
    public Optional<Piece> run() {
        if (all.size() != 1 || !isRowMajor(all.getFirst())) {
            return Optional.empty();
        }
        return Optional.of(all.getFirst());
    }

    private boolean isRowMajor(Piece p) {
        long step = width;
        for (int k = frame.length - 1; k >= 0; k--) {
            if (p.size[k] != frame[k] || (frame[k] > 1 && p.stride[k] != step)) {
                return false;
            }
            step *= frame[k];
        }
        return true;
    }

    /**
     * Elements {@code first} to {@code first + count - 1} along an axis, in a frame of their own.
     *
     * @throws IndexOutOfBoundsException when there are not as many
     */
    public Pieces narrow(int axis, long first, long count) {
        if (first < 0 || count < 0 || first + count > frame[axis]) {
            throw new IndexOutOfBoundsException(first + " + " + count + " of " + frame[axis] + " along axis " + axis);
        }
        long[] dims = frame.clone();
        dims[axis] = count;
        List<Piece> cut = new ArrayList<>();
        for (Piece p : all) {
            long low = Math.max(first, p.from[axis]);
            long high = Math.min(first + count, p.from[axis] + p.size[axis]);
            if (low < high) {
                long[] from = p.from.clone();
                long[] size = p.size.clone();
                from[axis] = low - first;
                size[axis] = high - low;
                cut.add(new Piece(
                        p.file, p.position + (low - p.from[axis]) * p.stride[axis], from, size, p.stride.clone()));
            }
        }
        return new Pieces(dims, width, sorted(cut, dims));
    }

    /** One element along an axis; the axis is gone. */
    public Pieces select(int axis, long index) {
        Pieces one = narrow(axis, index, 1);
        List<Piece> cut = new ArrayList<>();
        for (Piece p : one.all) {
            cut.add(new Piece(
                    p.file, p.position, without(p.from, axis), without(p.size, axis), without(p.stride, axis)));
        }
        return new Pieces(without(frame, axis), width, cut);
    }

    private static long[] without(long[] values, int axis) {
        long[] rest = new long[values.length - 1];
        System.arraycopy(values, 0, rest, 0, axis);
        System.arraycopy(values, axis + 1, rest, axis, rest.length - axis);
        return rest;
    }

    /**
     * The matrix with its axes exchanged.
     *
     * @throws IllegalArgumentException when there are not two axes
     */
    public Pieces transposed() {
        if (frame.length != 2) {
            throw new IllegalArgumentException(this + " is no matrix");
        }
        long[] dims = {frame[1], frame[0]};
        List<Piece> turned = new ArrayList<>();
        for (Piece p : all) {
            turned.add(new Piece(p.file, p.position, turned(p.from), turned(p.size), turned(p.stride)));
        }
        return new Pieces(dims, width, sorted(turned, dims));
    }

    private static long[] turned(long[] pair) {
        return new long[] {pair[1], pair[0]};
    }

    /**
     * Parts one after another along an axis.
     *
     * @param parts at least one, alike in width and in all other axes
     * @throws IllegalArgumentException when they are not
     */
    public static Pieces joined(List<Pieces> parts, int axis) {
        long[] dims = parts.getFirst().frame.clone();
        int width = parts.getFirst().width;
        dims[axis] = 0;
        List<Piece> moved = new ArrayList<>();
        for (Pieces part : parts) {
            long[] expected = dims.clone();
            expected[axis] = part.rank() == dims.length ? part.frame[axis] : -1;
            if (part.width != width || !Arrays.equals(part.frame, expected)) {
                throw new IllegalArgumentException(Arrays.toString(part.frame) + " does not go with "
                        + Arrays.toString(parts.getFirst().frame) + " along axis " + axis);
            }
            for (Piece p : part.all) {
                long[] from = p.from.clone();
                from[axis] += dims[axis];
                moved.add(new Piece(p.file, p.position, from, p.size, p.stride));
            }
            dims[axis] = Math.addExact(dims[axis], part.frame[axis]);
        }
        return new Pieces(dims, width, sorted(moved, dims));
    }

    /** A part and the element of a larger tensor that its first one is. */
    public record Placed(Pieces part, List<Long> from) {}

    /**
     * A tensor put together from parts that may lie anywhere in it.
     *
     * @param shape of the whole
     * @throws IllegalArgumentException when a part lies outside, two overlap, or an element is in none; the message says which, without a full stop
     */
    public static Pieces assembled(Shape shape, int width, Collection<Placed> parts) {
        long[] dims = shape.toArray();
        List<Piece> moved = new ArrayList<>();
        for (Placed placed : parts) {
            Pieces part = placed.part();
            for (int k = 0; k < dims.length; k++) {
                long first = part.rank() == dims.length && placed.from().size() == dims.length
                        ? placed.from().get(k)
                        : -1;
                if (first < 0 || first > dims[k] - part.frame[k] || part.width != width) {
                    throw new IllegalArgumentException("the chunk at " + placed.from() + " of size "
                            + Arrays.toString(part.frame) + " does not lie within " + shape);
                }
            }
            for (Piece p : part.all) {
                long[] from = p.from.clone();
                for (int k = 0; k < dims.length; k++) {
                    from[k] += placed.from().get(k);
                }
                moved.add(new Piece(p.file, p.position, from, p.size, p.stride));
            }
        }
        List<Piece> ordered = sorted(moved, dims);
        requireApart(ordered, dims);
        long covered = ordered.stream().mapToLong(Piece::volume).sum();
        if (covered != shape.elementCount()) {
            throw new IllegalArgumentException(
                    "the chunks hold " + covered + " elements, " + shape + " has " + shape.elementCount());
        }
        return new Pieces(dims, width, ordered);
    }

    /** Sweeps along the first axis, on which boxes are sorted: only boxes that are open at the same time can overlap. */
    private static void requireApart(List<Piece> ordered, long[] dims) {
        if (dims.length == 0) {
            if (ordered.size() > 1) {
                throw new IllegalArgumentException("two chunks hold the same element");
            }
            return;
        }
        List<Piece> open = new ArrayList<>();
        for (Piece p : ordered) {
            open.removeIf(o -> o.from[0] + o.size[0] <= p.from[0]);
            for (Piece o : open) {
                if (o.overlaps(p)) {
                    throw new IllegalArgumentException("the chunks at " + Arrays.toString(o.from) + " and "
                            + Arrays.toString(p.from) + " overlap");
                }
            }
            open.add(p);
        }
    }

    private static List<Piece> sorted(List<Piece> pieces, long[] dims) {
        long[] steps = rowMajor(dims);
        return pieces.stream()
                .sorted(Comparator.comparingLong(p -> {
                    long flat = 0;
                    for (int k = 0; k < steps.length; k++) {
                        flat += p.from[k] * steps[k];
                    }
                    return flat;
                }))
                .toList();
    }

    /** For example {@code [8, 4] in 2 pieces}. */
    @Override
    public String toString() {
        return Arrays.toString(frame) + " in " + all.size() + " pieces";
    }
}
