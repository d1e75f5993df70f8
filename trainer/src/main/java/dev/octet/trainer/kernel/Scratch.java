package dev.octet.trainer.kernel;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * Memory outside the heap for what one thread needs for a moment; it grows with need and is kept. Each use has an object of its own,
 * so that one piece of work never overwrites what another of the same thread still reads.
 */
public final class Scratch {
    private final ThreadLocal<MemorySegment> held = ThreadLocal.withInitial(() -> MemorySegment.NULL);

    /** Room for a tensor in the calling thread; what was there is lost. */
    public CpuTensor room(OperandType type) {
        return new CpuTensor(type, room(type.byteSize()));
    }

    /** Room for so many bytes in the calling thread, whose pieces of work may use it too; what was there is lost. */
    public MemorySegment room(long size) {
        MemorySegment bytes = held.get();
        long least = Math.max(1, size); // of nothing, too, the address is asked for
        if (bytes.byteSize() < least) {
            bytes = Arena.ofAuto().allocate(least, 64);
            held.set(bytes);
        }
        return bytes.asSlice(0, size);
    }
}
