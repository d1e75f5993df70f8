package dev.octet.trainer.kernel;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * Reusable per-thread memory outside the Java heap; it grows on demand and is kept. Each use has its own object, so that no two uses on one
 * thread overwrite each other.
 */
public final class Scratch {
    private final ThreadLocal<MemorySegment> held = ThreadLocal.withInitial(() -> MemorySegment.NULL);

    /** Memory for a tensor, for the calling thread; the previous contents are lost. */
    public CpuTensor room(OperandType type) {
        return new CpuTensor(type, room(type.byteSize()));
    }

    /** {@code size} bytes for the calling thread, which may share them with its pieces of work; the previous contents are lost. */
    public MemorySegment room(long size) {
        MemorySegment bytes = held.get();
        long least = Math.max(1, size); // an empty segment has no address
        if (bytes.byteSize() < least) {
            bytes = Arena.ofAuto().allocate(least, 64);
            held.set(bytes);
        }
        return bytes.asSlice(0, size);
    }
}
