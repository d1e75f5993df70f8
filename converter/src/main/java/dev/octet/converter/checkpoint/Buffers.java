package dev.octet.converter.checkpoint;

import java.lang.foreign.MemorySegment;

/** Memory for the processing steps of one tile. */
@FunctionalInterface
public interface Buffers {
    /** The purpose of a buffer; a tile holds one buffer per purpose. */
    enum Use {
        SOURCE,
        FLOATS,
        CODES,
        SCALES,
        SECOND_SCALES,
        STORED,
        SECOND_STORED,
        ZERO_POINTS,
        /** Values before adapters are added to them. */
        BASE,
        WORDS,
        /** For dequantising the source, in addition to those above. */
        READ_CODES,
        READ_WORDS,
        READ_SCALES,
        READ_SECOND,
        READ_STORED,
        READ_POINTS
    }

    /** A buffer of exactly {@code bytes}, with undefined contents. */
    MemorySegment buffer(Use use, long bytes);
}
