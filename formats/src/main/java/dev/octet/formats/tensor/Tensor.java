package dev.octet.formats.tensor;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;

/**
 * A view of a tensor's bytes: little-endian, row-major, contiguous, {@code spec.byteSize()} bytes.
 *
 * <p>The view owns nothing. Whoever opened the file (or allocated the memory) owns the {@link Arena}; after it is closed every
 * access throws {@link IllegalStateException}. Segments may be read-only (mapped files) and need not be aligned, so access
 * goes through the unaligned little-endian layouts of this class.
 */
public record Tensor(TensorSpec spec, MemorySegment bytes) {
    /** Unaligned little-endian layouts: no file format promises alignment. */
    public static final ValueLayout.OfFloat F32_LE =
            ValueLayout.JAVA_FLOAT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

    public static final ValueLayout.OfDouble F64_LE =
            ValueLayout.JAVA_DOUBLE_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
    public static final ValueLayout.OfShort I16_LE =
            ValueLayout.JAVA_SHORT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
    public static final ValueLayout.OfInt I32_LE = ValueLayout.JAVA_INT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);
    public static final ValueLayout.OfLong I64_LE = ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

    public Tensor {
        if (bytes.byteSize() != spec.byteSize()) {
            throw new IllegalArgumentException(
                    spec + " takes " + spec.byteSize() + " bytes, the segment has " + bytes.byteSize());
        }
    }

    public String name() {
        return spec.name();
    }

    public DType dtype() {
        return spec.dtype();
    }

    public Shape shape() {
        return spec.shape();
    }

    /** The same bytes under another name. */
    public Tensor withName(String name) {
        return new Tensor(spec.withName(name), bytes);
    }

    /** Whether all elements have the same bits; false for types of less than a byte. */
    public boolean isUniform() {
        long width = dtype().bits() / 8;
        // all elements equal the one after them
        return width > 0
                && dtype().bits() % 8 == 0
                && bytes.byteSize() > 0
                && MemorySegment.mismatch(bytes, 0, bytes.byteSize() - width, bytes, width, bytes.byteSize()) < 0;
    }

    /**
     * Whether this matrix is {@code other} transposed, to the bit; false for other shapes and types, and for types of less than a byte.
     * Unrelated weights differ within the first elements, so this is cheap.
     */
    public boolean isTransposeOf(Tensor other) {
        boolean matrices = shape().rank() == 2 && other.shape().rank() == 2;
        if (!matrices
                || dtype() != other.dtype()
                || dtype().bits() % 8 != 0
                || !other.shape().equals(Shape.of(shape().dim(1), shape().dim(0)))) {
            return false;
        }
        long rows = shape().dim(0);
        long columns = shape().dim(1);
        long width = dtype().bits() / 8;
        for (long r = 0; r < rows; r++) {
            for (long c = 0; c < columns; c++) {
                long here = (r * columns + c) * width;
                long there = (c * rows + r) * width;
                if (MemorySegment.mismatch(bytes, here, here + width, other.bytes, there, there + width) >= 0) {
                    return false;
                }
            }
        }
        return true;
    }

    /**
     * This matrix transposed, in {@code arena}.
     *
     * @throws IllegalArgumentException when it is not a matrix, or its elements are of less than a byte
     */
    public Tensor transposed(Arena arena) {
        if (shape().rank() != 2 || dtype().bits() % 8 != 0) {
            throw new IllegalArgumentException(spec + " cannot be transposed");
        }
        long rows = shape().dim(0);
        long columns = shape().dim(1);
        long width = dtype().bits() / 8;
        Tensor transposed = allocate(arena, new TensorSpec(name(), dtype(), Shape.of(columns, rows)));
        for (long r = 0; r < rows; r++) {
            for (long c = 0; c < columns; c++) {
                MemorySegment.copy(bytes, (r * columns + c) * width, transposed.bytes, (c * rows + r) * width, width);
            }
        }
        return transposed;
    }

    /** A new zero-filled tensor in {@code arena}, aligned to 64 bytes (one cache line, one AVX-512 vector). */
    public static Tensor allocate(Arena arena, TensorSpec spec) {
        return new Tensor(spec, arena.allocate(spec.byteSize(), 64));
    }

    /** A new F32 tensor in {@code arena} with the given elements. */
    public static Tensor ofFloats(Arena arena, String name, Shape shape, float... values) {
        Tensor t = allocate(arena, new TensorSpec(name, DType.F32, shape));
        MemorySegment.copy(values, 0, t.bytes, F32_LE, 0, checkedLength(t, values.length));
        return t;
    }

    /** A new I64 tensor in {@code arena} with the given elements. */
    public static Tensor ofLongs(Arena arena, String name, Shape shape, long... values) {
        Tensor t = allocate(arena, new TensorSpec(name, DType.I64, shape));
        MemorySegment.copy(values, 0, t.bytes, I64_LE, 0, checkedLength(t, values.length));
        return t;
    }

    private static int checkedLength(Tensor t, int length) {
        if (length != t.shape().elementCount()) {
            throw new IllegalArgumentException(
                    t.spec + " needs " + t.shape().elementCount() + " values, got " + length);
        }
        return length;
    }

    /**
     * All elements of an F32 tensor, copied to the heap; for small tensors and tests.
     *
     * @throws IllegalArgumentException for another type
     */
    public float[] toFloats() {
        require(DType.F32);
        return bytes.toArray(F32_LE);
    }

    /** All elements of an I64 tensor, copied to the heap; for shapes and indices. */
    public long[] toLongs() {
        require(DType.I64);
        return bytes.toArray(I64_LE);
    }

    private void require(DType dtype) {
        if (spec.dtype() != dtype) {
            throw new IllegalArgumentException(spec + " is not " + dtype);
        }
    }
}
