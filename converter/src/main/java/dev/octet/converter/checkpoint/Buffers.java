package dev.octet.converter.checkpoint;

import java.lang.foreign.MemorySegment;

/** Memory for the steps on the way of one tile. */
@FunctionalInterface
interface Buffers {
    /** What a buffer is for; one tile uses each for one thing at a time. */
    enum Use {
        SOURCE,
        FLOATS,
        CODES,
        SCALES,
        SECOND_SCALES,
        STORED,
        SECOND_STORED,
        ZERO_POINTS,
        WORDS,
        /** What dequantising the source takes, beside all of the above. */
        READ_CODES,
        READ_WORDS,
        READ_SCALES,
        READ_SECOND,
        READ_STORED,
        READ_POINTS
    }

    /** A buffer of exactly {@code bytes}; what it holds is chance. */
    MemorySegment buffer(Use use, long bytes);
}
