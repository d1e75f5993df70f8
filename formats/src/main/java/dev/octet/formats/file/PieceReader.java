package dev.octet.formats.file;

import dev.octet.formats.model.Pieces;
import dev.octet.formats.model.Pieces.Piece;
import java.io.EOFException;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * Reads a stretch of a tensor whose elements lie in pieces. Elements that are one run in file and tensor are read in place; others are read in as few runs as
 * their distances allow and put in their places in memory.
 */
public final class PieceReader {
    /** Longest stretch of a file that is read at once to take scattered elements from it: it stays in the cache until they are taken. */
    private static final long SPAN_BYTES = 1L << 20;

    /** Kept by each thread, because fresh memory is filled with zeros first. */
    private static final ThreadLocal<MemorySegment> SCRATCH =
            ThreadLocal.withInitial(() -> Arena.ofAuto().allocate(SPAN_BYTES, 64));

    /** A stretch is read at once when this share of it or more is wanted: reading sequentially costs less than asking again. */
    private static final long USED_SHARE = 4;

    private final OpenFiles files;
    private final Pieces pieces;
    /** Frame in bytes: the last axis is that of the bytes of an element. */
    private final long[] dims;
    /** Bytes of the tensor from one element of the frame to the next along each axis. */
    private final long[] steps;

    private final long start;
    private final MemorySegment into;

    private PieceReader(OpenFiles files, Pieces pieces, long start, MemorySegment into) {
        this.files = files;
        this.pieces = pieces;
        this.start = start;
        this.into = into;
        this.dims = new long[pieces.rank() + 1];
        for (int k = 0; k < pieces.rank(); k++) {
            dims[k] = pieces.dim(k);
        }
        dims[pieces.rank()] = pieces.width();
        this.steps = Pieces.rowMajor(dims);
    }

    /**
     * Reads {@code into.byteSize()} bytes of a tensor.
     *
     * @param from first byte, counted from the tensor's first
     * @param into native memory
     * @throws EOFException when a file has become shorter
     * @throws IOException when a file is missing or cannot be read
     */
    public static void read(OpenFiles files, Pieces pieces, long from, MemorySegment into) throws IOException {
        if (into.byteSize() == 0) {
            return;
        }
        var run = pieces.run();
        if (run.isPresent()) {
            files.read(run.get().file(), run.get().position() + from, into);
            return;
        }
        PieceReader reader = new PieceReader(files, pieces, from, into);
        int rank = reader.dims.length;
        reader.boxes(0, new long[rank], new long[rank], from, from + into.byteSize());
    }

    /**
     * Cuts a stretch of bytes into boxes.
     *
     * @param axis axes before it are fixed in {@code low} and {@code high}
     * @param first counted within the axes from {@code axis} on
     * @param end after the last
     */
    private void boxes(int axis, long[] low, long[] high, long first, long end) throws IOException {
        if (axis == dims.length - 1) {
            low[axis] = first;
            high[axis] = end;
            box(low, high);
            return;
        }
        long step = steps[axis];
        long index = first / step;
        long last = (end - 1) / step;
        if (first % step != 0 || index == last) {
            low[axis] = index;
            high[axis] = index + 1;
            boxes(axis + 1, low, high, first - index * step, Math.min(step, end - index * step));
            index++;
        }
        boolean cut = end % step != 0;
        long whole = cut ? last : last + 1;
        if (index < whole) {
            low[axis] = index;
            high[axis] = whole;
            for (int k = axis + 1; k < dims.length; k++) {
                low[k] = 0;
                high[k] = dims[k];
            }
            box(low, high);
            index = whole;
        }
        if (index == last && cut) {
            low[axis] = last;
            high[axis] = last + 1;
            boxes(axis + 1, low, high, 0, end - last * step);
        }
    }

    private void box(long[] low, long[] high) throws IOException {
        int rank = dims.length;
        for (Piece piece : pieces.all()) {
            if (rank > 1 && piece.from(0) >= high[0]) {
                return; // pieces are in the order of their first elements
            }
            long source = piece.position();
            long target = -start;
            long[] counts = new long[rank];
            boolean empty = false;
            for (int k = 0; k < rank && !empty; k++) {
                boolean bytes = k == rank - 1;
                long from = bytes ? 0 : piece.from(k);
                long a = Math.max(low[k], from);
                long b = Math.min(high[k], from + (bytes ? dims[k] : piece.size(k)));
                empty = a >= b;
                counts[k] = b - a;
                source += (a - from) * (bytes ? 1 : piece.stride(k));
                target += a * steps[k];
            }
            if (!empty) {
                copy(piece, counts, source, target);
            }
        }
    }

    /** Leaves out axes of one element and joins those that are one run in file and tensor. */
    private void copy(Piece piece, long[] counts, long source, long target) throws IOException {
        int rank = dims.length;
        long[] n = new long[rank];
        long[] in = new long[rank];
        long[] out = new long[rank];
        int used = 0; // axes from the innermost on, so that index 0 is the run of bytes
        n[used] = counts[rank - 1];
        in[used] = 1;
        out[used] = 1;
        used++;
        for (int k = rank - 2; k >= 0; k--) {
            if (counts[k] == 1) {
                continue;
            }
            long step = piece.stride(k);
            boolean joins = step == n[used - 1] * in[used - 1] && steps[k] == n[used - 1] * out[used - 1];
            if (joins) {
                n[used - 1] *= counts[k];
            } else {
                n[used] = counts[k];
                in[used] = step;
                out[used] = steps[k];
                used++;
            }
        }
        Axes axes = new Axes(n, in, out);
        fetch(piece, axes, used, source, target);
    }

    /** Axes from the innermost on: elements, distances in the file and in the tensor. */
    private static final class Axes {
        private final long[] n;
        private final long[] in;
        private final long[] out;

        Axes(long[] n, long[] in, long[] out) {
            this.n = n;
            this.in = in;
            this.out = out;
        }

        Axes with(int axis, long count) {
            long[] counts = n.clone();
            counts[axis] = count;
            return new Axes(counts, in, out);
        }
    }

    private void fetch(Piece piece, Axes axes, int used, long source, long target) throws IOException {
        if (used == 1) {
            files.read(piece.file(), source, into.asSlice(target, axes.n[0]));
            return;
        }
        long span = axes.n[0];
        long wanted = axes.n[0];
        int outer = 1;
        for (int k = 1; k < used; k++) {
            span += (axes.n[k] - 1) * axes.in[k];
            wanted *= axes.n[k];
            if (axes.in[k] > axes.in[outer]) {
                outer = k;
            }
        }
        if (span / USED_SHARE > wanted) { // one at a time along the axis with the largest distances in the file
            Axes rest = without(axes, outer, used);
            for (long i = 0; i < axes.n[outer]; i++) {
                fetch(piece, rest, used - 1, source + i * axes.in[outer], target + i * axes.out[outer]);
            }
        } else if (span <= SPAN_BYTES || axes.n[outer] == 1) {
            gather(piece, axes, used, span, source, target);
        } else {
            long half = axes.n[outer] / 2;
            fetch(piece, axes.with(outer, half), used, source, target);
            fetch(
                    piece,
                    axes.with(outer, axes.n[outer] - half),
                    used,
                    source + half * axes.in[outer],
                    target + half * axes.out[outer]);
        }
    }

    /** Reads a stretch of the file and takes the elements from it. */
    private void gather(Piece piece, Axes axes, int used, long span, long source, long target) throws IOException {
        if (span <= SPAN_BYTES) {
            MemorySegment part = SCRATCH.get().asSlice(0, span);
            files.read(piece.file(), source, part);
            scatter(axes, used - 1, part, 0, target);
            return;
        }
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment part = arena.allocate(span, 64);
            files.read(piece.file(), source, part);
            scatter(axes, used - 1, part, 0, target);
        }
    }

    private static Axes without(Axes axes, int axis, int used) {
        long[] n = axes.n.clone();
        long[] in = axes.in.clone();
        long[] out = axes.out.clone();
        for (int k = axis; k < used - 1; k++) {
            n[k] = n[k + 1];
            in[k] = in[k + 1];
            out[k] = out[k + 1];
        }
        return new Axes(n, in, out);
    }

    private void scatter(Axes axes, int axis, MemorySegment part, long source, long target) {
        long run = axes.n[0];
        long count = axes.n[axis];
        long in = axes.in[axis];
        long out = axes.out[axis];
        if (axis > 1) {
            for (long i = 0; i < count; i++) {
                scatter(axes, axis - 1, part, source + i * in, target + i * out);
            }
        } else if (run == Short.BYTES) { // single elements, as of a transposed matrix
            for (long i = 0; i < count; i++) {
                into.set(
                        ValueLayout.JAVA_SHORT_UNALIGNED,
                        target + i * out,
                        part.get(ValueLayout.JAVA_SHORT_UNALIGNED, source + i * in));
            }
        } else if (run == Integer.BYTES) {
            for (long i = 0; i < count; i++) {
                into.set(
                        ValueLayout.JAVA_INT_UNALIGNED,
                        target + i * out,
                        part.get(ValueLayout.JAVA_INT_UNALIGNED, source + i * in));
            }
        } else {
            for (long i = 0; i < count; i++) {
                MemorySegment.copy(part, source + i * in, into, target + i * out, run);
            }
        }
    }

    /** All bytes of a tensor, in memory of {@code arena}. */
    public static MemorySegment read(OpenFiles files, Pieces pieces, long bytes, Arena arena) throws IOException {
        MemorySegment all = arena.allocate(bytes, 64);
        read(files, pieces, 0, all);
        return all;
    }
}
