package dev.octet.quant.cast;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;

/**
 * Packs four-bit codes two to a byte, the earlier element in the low nibble (safetensors F4, ONNX FLOAT4E2M1, OCP MX in memory).
 */
public final class Nibbles {
    private static final int LOW = 0xF;

    /** Codes per call of a kernel, for the reasons that {@code ElementCastVector} gives; a multiple of every vector's length. */
    private static final int TILE = 1 << 14;

    private static final boolean VECTOR = ElementCast.best() instanceof ElementCastVector;

    private Nibbles() {}

    /**
     * Packs codes.
     *
     * @param codes one code per byte, upper nibbles 0
     * @param packed takes {@code ceil(codes / 2)} bytes; with an odd count the last upper nibble is 0
     * @throws IllegalArgumentException when the sizes disagree
     */
    public static void pack(MemorySegment codes, MemorySegment packed) {
        long count = codes.byteSize();
        requireSizes(count, packed);
        long done = VECTOR ? count - count % NibblesVector.LANES : 0;
        for (long from = 0; from < done; from += TILE) {
            int n = (int) Math.min(TILE, done - from);
            NibblesVector.pack(codes.asSlice(from, n), packed.asSlice(from / 2, n / 2), n);
        }
        packFrom(done, codes, packed);
    }

    /** Packs codes {@code first} and on, one pair at a time; {@code first} is even. */
    static void packFrom(long first, MemorySegment codes, MemorySegment packed) {
        long count = codes.byteSize();
        for (long i = first; i + 1 < count; i += 2) {
            int low = codes.get(ValueLayout.JAVA_BYTE, i);
            int high = codes.get(ValueLayout.JAVA_BYTE, i + 1);
            packed.set(ValueLayout.JAVA_BYTE, i / 2, (byte) (low | (high << 4)));
        }
        if (count % 2 == 1) {
            packed.set(ValueLayout.JAVA_BYTE, count / 2, codes.get(ValueLayout.JAVA_BYTE, count - 1));
        }
    }

    /**
     * Unpacks codes.
     *
     * @param packed {@code ceil(codes / 2)} bytes
     * @param codes takes one code per byte
     * @throws IllegalArgumentException when the sizes disagree
     */
    public static void unpack(MemorySegment packed, MemorySegment codes) {
        long count = codes.byteSize();
        requireSizes(count, packed);
        long done = VECTOR ? count - count % NibblesVector.LANES : 0;
        for (long from = 0; from < done; from += TILE) {
            int n = (int) Math.min(TILE, done - from);
            NibblesVector.unpack(packed.asSlice(from / 2, n / 2), codes.asSlice(from, n), n);
        }
        unpackFrom(done, packed, codes);
    }

    /** Unpacks codes {@code first} and on, one at a time. */
    static void unpackFrom(long first, MemorySegment packed, MemorySegment codes) {
        long count = codes.byteSize();
        for (long i = first; i < count; i++) {
            int pair = packed.get(ValueLayout.JAVA_BYTE, i / 2);
            codes.set(ValueLayout.JAVA_BYTE, i, (byte) (i % 2 == 0 ? pair & LOW : (pair >> 4) & LOW));
        }
    }

    private static void requireSizes(long codes, MemorySegment packed) {
        if (packed.byteSize() != Math.ceilDiv(codes, 2L)) {
            throw new IllegalArgumentException(codes + " nibbles in " + packed.byteSize() + " packed bytes");
        }
    }
}
