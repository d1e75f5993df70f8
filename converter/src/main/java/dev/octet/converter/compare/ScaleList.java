package dev.octet.converter.compare;

import dev.octet.quant.block.Granularity;
import java.io.IOException;
import java.lang.foreign.MemorySegment;

/** The scales of one weight as multipliers, a second level multiplied in, in the order of the blocks. For use by several threads. */
interface ScaleList {
    /** Which elements share one. */
    Granularity granularity();

    /** Number of scales. */
    long count();

    /** Reads scales {@code from .. to - 1} as F32. */
    void read(long from, long to, MemorySegment multipliers) throws IOException;
}
