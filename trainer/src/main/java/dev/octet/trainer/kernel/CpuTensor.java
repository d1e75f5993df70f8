package dev.octet.trainer.kernel;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.BFloat16;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * A tensor in host memory, row-major, little-endian, {@code type.byteSize()} bytes.
 *
 * <p>Kernels work on tiles: {@link #read} widens consecutive elements of any float type to an F32 array that fits the first-level cache,
 * {@link #write} rounds such an array back to nearest even. Thus one kernel serves F32, F16 and BF16.
 */
public record CpuTensor(OperandType type, MemorySegment bytes) {
    public CpuTensor {
        if (bytes.byteSize() != type.byteSize()) {
            throw new IllegalArgumentException(
                    type + " takes " + type.byteSize() + " bytes, but the segment has " + bytes.byteSize());
        }
    }

    /** Whether F32 represents every value of a type exactly, so that {@link #read} is lossless. */
    public static boolean fitsTiles(DType type) {
        return switch (type) {
            case F32, F16, BF16, BOOL, I8, U8 -> true;
            default -> false;
        };
    }

    /** A one-dimensional F32 tensor backed by an array. */
    public static CpuTensor of(float[] values) {
        return new CpuTensor(new OperandType(DType.F32, Shape.of(values.length)), MemorySegment.ofArray(values));
    }

    /** Type of the elements. */
    public DType dtype() {
        return type.dtype();
    }

    /** Its dimensions. */
    public Shape shape() {
        return type.shape();
    }

    /** Number of elements. */
    public long count() {
        return type.count();
    }

    /**
     * Reads elements {@code from .. from + n - 1} as F32 into {@code to}, starting at {@code at}. Float types are widened exactly; BOOL,
     * I32 and I64 are converted, I64 with rounding.
     */
    public void read(long from, float[] to, int at, int n) {
        switch (dtype()) {
            case F32 -> MemorySegment.copy(bytes, Tensor.F32_LE, from * 4, to, at, n);
            case BF16 -> NarrowFloats.BEST.readBf16(bytes, from, to, at, n);
            case F16 -> NarrowFloats.BEST.readF16(bytes, from, to, at, n);
            case F64 -> {
                for (int i = 0; i < n; i++) {
                    to[at + i] = (float) bytes.get(Tensor.F64_LE, (from + i) * 8);
                }
            }
            case I64 -> {
                for (int i = 0; i < n; i++) {
                    to[at + i] = bytes.get(Tensor.I64_LE, (from + i) * 8);
                }
            }
            case BOOL, I8 -> {
                for (int i = 0; i < n; i++) {
                    to[at + i] = bytes.get(ValueLayout.JAVA_BYTE, from + i);
                }
            }
            default -> {
                for (int i = 0; i < n; i++) {
                    to[at + i] = readLong(from + i);
                }
            }
        }
    }

    /**
     * Rounds {@code n} values of {@code from}, starting at {@code at}, to this tensor's float type and writes them from element {@code to}
     * on.
     */
    public void write(long to, float[] from, int at, int n) {
        switch (dtype()) {
            case F32 -> MemorySegment.copy(from, at, bytes, Tensor.F32_LE, to * 4, n);
            case BF16 -> NarrowFloats.BEST.writeBf16(bytes, to, from, at, n);
            case F16 -> NarrowFloats.BEST.writeF16(bytes, to, from, at, n);
            case F64 -> {
                for (int i = 0; i < n; i++) {
                    bytes.set(Tensor.F64_LE, (to + i) * 8, from[at + i]);
                }
            }
            case BOOL, I8 -> {
                for (int i = 0; i < n; i++) {
                    bytes.set(ValueLayout.JAVA_BYTE, to + i, (byte) from[at + i]);
                }
            }
            default -> {
                for (int i = 0; i < n; i++) {
                    writeLong(to + i, (long) from[at + i]);
                }
            }
        }
    }

    /** Element {@code i} of an integer or BOOL tensor. */
    public long readLong(long i) {
        return switch (dtype()) {
            case I64 -> bytes.get(Tensor.I64_LE, i * 8);
            case I32 -> bytes.get(Tensor.I32_LE, i * 4);
            case I16 -> bytes.get(Tensor.I16_LE, i * 2);
            case BOOL, I8 -> bytes.get(ValueLayout.JAVA_BYTE, i);
            case U8 -> bytes.get(ValueLayout.JAVA_BYTE, i) & 0xFF;
            default -> throw new IllegalStateException(dtype() + " is not an integer type of programs");
        };
    }

    /** Sets element {@code i} of an integer or BOOL tensor. */
    public void writeLong(long i, long value) {
        switch (dtype()) {
            case I64 -> bytes.set(Tensor.I64_LE, i * 8, value);
            case I32 -> bytes.set(Tensor.I32_LE, i * 4, (int) value);
            case I16 -> bytes.set(Tensor.I16_LE, i * 2, (short) value);
            case BOOL, I8, U8 -> bytes.set(ValueLayout.JAVA_BYTE, i, (byte) value);
            default -> throw new IllegalStateException(dtype() + " is not an integer type of programs");
        }
    }

    /** Element {@code i} of a tensor of any type in programs; I64 is rounded to F64. */
    public double readNumber(long i) {
        return switch (dtype()) {
            case F32 -> bytes.get(Tensor.F32_LE, i * 4);
            case F64 -> bytes.get(Tensor.F64_LE, i * 8);
            case BF16 -> BFloat16.toFloat(bytes.get(Tensor.I16_LE, i * 2));
            case F16 -> Float.float16ToFloat(bytes.get(Tensor.I16_LE, i * 2));
            default -> readLong(i);
        };
    }

    /** Sets element {@code i} of a tensor of any type: rounded to a float type, truncated to an integer type. */
    public void writeNumber(long i, double value) {
        if (dtype() == DType.F64) {
            bytes.set(Tensor.F64_LE, i * 8, value);
        } else if (dtype().isFloat()) {
            write(i, new float[] {(float) value}, 0, 1);
        } else {
            writeLong(i, (long) value);
        }
    }

    /** All elements of an integer or BOOL tensor. */
    public long[] toLongs() {
        long[] all = new long[Math.toIntExact(count())];
        for (int i = 0; i < all.length; i++) {
            all[i] = readLong(i);
        }
        return all;
    }
}
