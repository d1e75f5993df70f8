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
        MemorySegment bytes = held.get();
        if (bytes.byteSize() < type.byteSize()) {
            bytes = Arena.ofAuto().allocate(type.byteSize(), 64);
            held.set(bytes);
        }
        return new CpuTensor(type, bytes.asSlice(0, type.byteSize()));
    }
}
