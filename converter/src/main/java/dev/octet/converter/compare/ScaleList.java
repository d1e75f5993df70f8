package dev.octet.converter.compare;

import dev.octet.quant.block.Granularity;
import java.io.IOException;
import java.lang.foreign.MemorySegment;

/** The scales of one weight as multipliers, including the second level, in the order of the blocks. Thread-safe. */
interface ScaleList {
    /** The elements that share a scale. */
    Granularity granularity();

    /** Number of scales. */
    long count();

    /** Reads scales {@code from .. to - 1} as F32. */
    void read(long from, long to, MemorySegment multipliers) throws IOException;
}
