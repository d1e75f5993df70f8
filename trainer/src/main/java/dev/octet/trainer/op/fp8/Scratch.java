package dev.octet.trainer.op.fp8;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * Memory that a call needs and the next one may use again. Belongs to the thread that calls the kernel, whose pieces may use it, too;
 * fresh pages for each call would take as long as a small product.
 */
final class Scratch {
    /** Left operand, right operand, codes, sums. */
    private static final int PLACES = 4;

    private static final ThreadLocal<MemorySegment[]> MINE = ThreadLocal.withInitial(() -> new MemorySegment[PLACES]);

    private Scratch() {}

    /** At least {@code bytes} bytes with arbitrary content, valid until the place is asked for again. */
    static MemorySegment of(int place, long bytes) {
        MemorySegment[] mine = MINE.get();
        MemorySegment kept = mine[place];
        if (kept == null || kept.byteSize() < bytes) {
            kept = Arena.ofAuto().allocate(Math.max(1, bytes), 64);
            mine[place] = kept;
        }
        return kept.asSlice(0, bytes);
    }
}
