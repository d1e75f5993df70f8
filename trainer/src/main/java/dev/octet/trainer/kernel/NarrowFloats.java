package dev.octet.trainer.kernel;

import dev.octet.quant.number.VectorUnit;
import java.lang.foreign.MemorySegment;

/** Converts between BF16 or F16 in memory and F32 arrays: widens exactly, rounds to nearest even. Positions in memory are in elements. */
interface NarrowFloats {
    /** The fastest there is here. */
    NarrowFloats BEST = VectorUnit.pays() ? new VectorNarrowFloats() : new ScalarNarrowFloats();

    void readBf16(MemorySegment from, long first, float[] to, int at, int n);

    void writeBf16(MemorySegment to, long first, float[] from, int at, int n);

    void readF16(MemorySegment from, long first, float[] to, int at, int n);

    void writeF16(MemorySegment to, long first, float[] from, int at, int n);
}
