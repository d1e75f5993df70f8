package dev.octet.formats.npy;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.zip.CRC32;
import java.util.zip.CheckedInputStream;
import java.util.zip.ZipException;

/**
 * Reads one array from first to last row, any number of rows per call; memory holds only the rows of a call. A row is the slice at one
 * index of the first axis. Not thread-safe.
 */
public final class NpyReader implements AutoCloseable {
    private static final int CHUNK_BYTES = 1 << 16;

    private final CheckedInputStream in;
    private final String where;
    private final NpyLimits limits;
    private final NpyHeader header;
    private final long expectedCrc;
    private long rowsRead;

    /**
     * Reads the header.
     *
     * @param totalBytes claimed size of {@code in}; must equal the bytes of header and elements
     * @param expectedCrc CRC-32 over all of {@code in}, -1 without one
     */
    NpyReader(InputStream in, String name, String where, NpyLimits limits, long totalBytes, long expectedCrc)
            throws IOException {
        this.in = new CheckedInputStream(in, new CRC32());
        this.where = where;
        this.limits = limits;
        this.expectedCrc = expectedCrc;
        try {
            this.header = NpyHeader.read(this.in, name, where, limits);
        } catch (ZipException | EOFException e) {
            throw damaged(e);
        }
        long needed = Math.addExact(header.headerBytes(), header.spec().byteSize());
        if (totalBytes != needed) {
            throw new InvalidDataException(
                    "the array " + header.spec() + " needs " + needed + " bytes, " + totalBytes + " are there",
                    where,
                    "the file is damaged: write it again with numpy.save or numpy.savez");
        }
    }

    /** Name, element type and shape of the whole array. */
    public TensorSpec spec() {
        return header.spec();
    }

    /** Total number of rows: the first dimension, 1 for a scalar. */
    public long rows() {
        return spec().shape().rank() == 0 ? 1 : spec().shape().dim(0);
    }

    /** Rows read or skipped so far. */
    public long rowsRead() {
        return rowsRead;
    }

    /**
     * The whole array, converted to C order and little-endian. Only allowed before other reads.
     *
     * @throws InvalidDataException when the file is damaged or the array exceeds {@link NpyLimits#maxReadBytes()}
     * @throws IOException when it cannot be read
     */
    public Tensor readAll(Arena arena) throws IOException {
        if (rowsRead != 0) {
            throw new IllegalStateException(rowsRead + " rows were read before");
        }
        Tensor tensor = read(spec(), arena);
        rowsRead = rows();
        checkEnd();
        return header.fortranOrder() ? transposed(tensor, arena) : tensor;
    }

    /**
     * The next {@code count} rows as a tensor [count, ...]; a scalar has one row.
     *
     * @throws IndexOutOfBoundsException when fewer rows are left
     * @throws InvalidDataException when the file is damaged, the rows exceed {@link NpyLimits#maxReadBytes()}, or the array is in Fortran
     *     order, in which rows are not contiguous
     * @throws IOException when it cannot be read
     */
    public Tensor read(long count, Arena arena) throws IOException {
        Tensor tensor = read(rowsSpec(count), arena);
        rowsRead += count;
        checkEnd();
        return tensor;
    }

    /** Skips {@code count} rows; throws as {@link #read(long, Arena)}. */
    public void skip(long count) throws IOException {
        byte[] chunk = new byte[CHUNK_BYTES];
        for (long left = rowsSpec(count).byteSize(); left > 0; ) {
            int n = (int) Math.min(left, chunk.length);
            readFully(chunk, n);
            left -= n;
        }
        rowsRead += count;
        checkEnd();
    }

    private TensorSpec rowsSpec(long count) {
        if (count < 0 || count > rows() - rowsRead) {
            throw new IndexOutOfBoundsException(count + " rows wanted, " + (rows() - rowsRead) + " left");
        }
        if (header.fortranOrder()) {
            throw new InvalidDataException(
                    "the array is in Fortran order, in which rows are not contiguous",
                    where,
                    "save it in C order: numpy.ascontiguousarray(x)");
        }
        if (spec().shape().rank() == 0) {
            return new TensorSpec(spec().name(), spec().dtype(), count == 0 ? Shape.of(0) : Shape.SCALAR);
        }
        long[] dims = spec().shape().toArray();
        dims[0] = count;
        return new TensorSpec(spec().name(), spec().dtype(), Shape.of(dims));
    }

    private Tensor read(TensorSpec part, Arena arena) throws IOException {
        if (part.byteSize() > limits.maxReadBytes()) {
            throw new InvalidDataException(
                    part + " takes " + part.byteSize() + " bytes at once, the limit is " + limits.maxReadBytes(),
                    where,
                    "read fewer rows in a call");
        }
        Tensor tensor = Tensor.allocate(arena, part);
        byte[] chunk = new byte[(int) Math.min(CHUNK_BYTES, part.byteSize())];
        for (long at = 0; at < part.byteSize(); at += chunk.length) {
            int n = (int) Math.min(chunk.length, part.byteSize() - at);
            readFully(chunk, n);
            if (header.bigEndian()) {
                swap(chunk, n, header.swapBytes());
            }
            MemorySegment.copy(chunk, 0, tensor.bytes(), ValueLayout.JAVA_BYTE, at, n);
        }
        return tensor;
    }

    private void readFully(byte[] chunk, int n) throws IOException {
        try {
            if (in.readNBytes(chunk, 0, n) < n) {
                throw new EOFException("the array ends early");
            }
        } catch (ZipException | EOFException e) {
            throw damaged(e);
        }
    }

    private InvalidDataException damaged(IOException e) {
        return new InvalidDataException(
                "the array is damaged: " + e.getMessage(), where, "write the file again, or copy it again", e);
    }

    private static void swap(byte[] bytes, int n, int width) {
        for (int at = 0; at < n; at += width) {
            for (int low = at, high = at + width - 1; low < high; low++, high--) {
                byte b = bytes[low];
                bytes[low] = bytes[high];
                bytes[high] = b;
            }
        }
    }

    private void checkEnd() {
        if (rowsRead == rows() && expectedCrc >= 0 && in.getChecksum().getValue() != expectedCrc) {
            throw new InvalidDataException(
                    "the bytes of the array do not have the checksum the file claims",
                    where,
                    "write the file again, or copy it again");
        }
    }

    /** The same elements with the last axis innermost. */
    private Tensor transposed(Tensor fortran, Arena arena) {
        Tensor tensor = Tensor.allocate(arena, spec());
        long[] dims = spec().shape().toArray();
        long elementBytes = spec().dtype().bits() / 8;
        long[] index = new long[dims.length];
        for (long from = 0; from < fortran.bytes().byteSize(); from += elementBytes) {
            long to = 0;
            for (int axis = 0; axis < dims.length; axis++) {
                to = to * dims[axis] + index[axis];
            }
            MemorySegment.copy(fortran.bytes(), from, tensor.bytes(), to * elementBytes, elementBytes);
            for (int axis = 0; axis < dims.length && ++index[axis] == dims[axis]; axis++) {
                index[axis] = 0;
            }
        }
        return tensor;
    }

    @Override
    public void close() throws IOException {
        in.close();
    }
}
