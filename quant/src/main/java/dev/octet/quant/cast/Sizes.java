package dev.octet.quant.cast;

import dev.octet.formats.tensor.DType;
import java.lang.foreign.MemorySegment;

/** The checks of arguments that both twins share. */
final class Sizes {
    private Sizes() {}

    /** Bytes of one float of {@code type}: 4 or 2. */
    static int width(DType type) {
        if (type != DType.F32 && type != DType.BF16 && type != DType.F16) {
            throw new IllegalArgumentException(type + " is not F32, BF16 or F16");
        }
        return type.bits() / 8;
    }

    /** The number of codes, after comparing it with the number of floats. */
    static long count(MemorySegment codes, DType type, MemorySegment floats) {
        long count = codes.byteSize();
        if (floats.byteSize() != Math.multiplyExact(count, (long) width(type))) {
            throw new IllegalArgumentException(
                    count + " codes for " + floats.byteSize() + " bytes of " + type + " elements");
        }
        return count;
    }

    /** The number of floats in a segment. */
    static long count(DType type, MemorySegment floats) {
        if (floats.byteSize() % width(type) != 0) {
            throw new IllegalArgumentException(floats.byteSize() + " bytes are not whole number of " + type);
        }
        return floats.byteSize() / width(type);
    }

    /** Refuses a segment that has not {@code count} F32. */
    static void requireFloats(MemorySegment floats, long count) {
        if (floats.byteSize() != Math.multiplyExact(count, 4L)) {
            throw new IllegalArgumentException(count + " elements in " + floats.byteSize() + " bytes of F32");
        }
    }

    /** Refuses a scale by which one cannot divide and multiply. */
    static void requireScale(float scale) {
        if (!(scale > 0 && scale < Float.POSITIVE_INFINITY)) {
            throw new IllegalArgumentException("scale " + scale + " is not positive and finite");
        }
    }

    /** Refuses a segment that has not one F32 for each group of {@code size} elements, the last perhaps shorter. */
    static void requireGroups(MemorySegment floats, long count, long size) {
        if (size < 1) {
            throw new IllegalArgumentException("groups of " + size + " elements");
        }
        requireFloats(floats, Math.ceilDiv(count, size));
    }

    /** What to divide by for a scale: infinity for zero, so that finite elements become zeros. */
    static float divisor(float scale) {
        return scale == 0 ? Float.POSITIVE_INFINITY : scale;
    }
}
