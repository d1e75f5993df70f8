package dev.octet.quant.cast;

import static dev.octet.quant.cast.Lanes.LE;
import static dev.octet.quant.cast.Lanes.WIDE_SHORT;

import java.lang.foreign.MemorySegment;
import jdk.incubator.vector.ByteVector;
import jdk.incubator.vector.ShortVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorShape;
import jdk.incubator.vector.VectorSpecies;

/** The kernels of {@link Nibbles} on the Vector API: a pair of codes is a 16-bit lane, a packed pair a byte. */
final class NibblesVector {
    private static final VectorSpecies<Byte> CODES = ByteVector.SPECIES_PREFERRED;
    private static final VectorSpecies<Byte> PACKED =
            VectorSpecies.of(byte.class, VectorShape.forBitSize(CODES.vectorBitSize() / 2));

    /** Codes in one vector. */
    static final int LANES = CODES.length();

    private NibblesVector() {}

    /** Packs {@code n} codes, a multiple of {@link #LANES}. */
    static void pack(MemorySegment codes, MemorySegment packed, int n) {
        for (int i = 0; i < n; i += LANES) {
            ShortVector pairs =
                    ByteVector.fromMemorySegment(CODES, codes, i, LE).reinterpretAsShorts();
            ShortVector bytes = pairs.or(pairs.lanewise(VectorOperators.LSHR, 4));
            ((ByteVector) bytes.convertShape(VectorOperators.S2B, PACKED, 0)).intoMemorySegment(packed, i / 2, LE);
        }
    }

    /** Unpacks {@code n} codes, a multiple of {@link #LANES}. */
    static void unpack(MemorySegment packed, MemorySegment codes, int n) {
        for (int i = 0; i < n; i += LANES) {
            ShortVector bytes = (ShortVector) ByteVector.fromMemorySegment(PACKED, packed, i / 2, LE)
                    .convertShape(VectorOperators.ZERO_EXTEND_B2S, WIDE_SHORT, 0);
            ShortVector pairs =
                    bytes.or(bytes.lanewise(VectorOperators.LSHL, 4)).and((short) 0x0F0F);
            pairs.reinterpretAsBytes().intoMemorySegment(codes, i, LE);
        }
    }
}
