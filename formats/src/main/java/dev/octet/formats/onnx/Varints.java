package dev.octet.formats.onnx;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/** Packed lists of protobuf varints: seven bits per byte, lowest first; the top bit is set if more bytes follow. */
final class Varints {
    private static final int MAX_BYTES = 10;

    private final MemorySegment bytes;
    private long position;

    Varints(MemorySegment bytes) {
        this.bytes = bytes;
    }

    /** Number of varints in {@code bytes}: each ends with a byte whose top bit is clear. */
    static long count(MemorySegment bytes) {
        long n = 0;
        for (long i = 0; i < bytes.byteSize(); i++) {
            n += bytes.get(ValueLayout.JAVA_BYTE, i) >= 0 ? 1 : 0;
        }
        return n;
    }

    /** Whether {@code bytes} are whole numbers of at most 10 bytes each. */
    static boolean isList(MemorySegment bytes) {
        int length = 0;
        for (long i = 0; i < bytes.byteSize(); i++) {
            if (++length > MAX_BYTES) {
                return false;
            }
            length = bytes.get(ValueLayout.JAVA_BYTE, i) >= 0 ? 0 : length;
        }
        return length == 0;
    }

    boolean hasNext() {
        return position < bytes.byteSize();
    }

    /**
     * The next number.
     *
     * @throws IllegalStateException when the list ends inside a number or a number is longer than 10 bytes
     */
    long next() {
        long value = 0;
        for (int i = 0; i < MAX_BYTES && position < bytes.byteSize(); i++) {
            byte b = bytes.get(ValueLayout.JAVA_BYTE, position++);
            value |= (long) (b & 0x7F) << (7 * i);
            if (b >= 0) {
                return value;
            }
        }
        throw new IllegalStateException("broken varint");
    }
}
