package dev.octet.trainer.kernel;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.ref.Cleaner;
import org.jspecify.annotations.Nullable;

/**
 * Reusable per-thread memory outside the Java heap; it grows on demand and is kept as long as the thread and this object, which
 * segments do not keep: hold it in a static field. Each use has its own object, so that no two uses on one thread overwrite each other.
 */
public final class Scratch {
    private static final Cleaner CLEANER = Cleaner.create();

    private final ThreadLocal<Held> held = ThreadLocal.withInitial(Held::new);

    /** What a thread has; freed behind it. */
    private static final class Held {
        private final Room room = new Room();

        Held() {
            CLEANER.register(this, room);
        }
    }

    private static final class Room implements Runnable {
        private @Nullable Arena arena;
        private MemorySegment bytes = MemorySegment.NULL;

        /** Frees what is there before it takes more: garbage would lie about until a collection of the heap, which has no reason to come. */
        MemorySegment grown(long least) {
            run();
            Arena next = Arena.ofShared();
            arena = next;
            bytes = next.allocate(least, 64);
            return bytes;
        }

        @Override
        public void run() {
            Arena before = arena;
            arena = null;
            bytes = MemorySegment.NULL;
            if (before != null) {
                before.close();
            }
        }
    }

    /** Memory for a tensor, for the calling thread; the previous contents are lost. */
    public CpuTensor room(OperandType type) {
        return new CpuTensor(type, room(type.byteSize()));
    }

    /** {@code size} bytes for the calling thread, which may share them with its pieces of work; the previous contents are lost, and what was given before may be gone. */
    public MemorySegment room(long size) {
        Room room = held.get().room;
        long least = Math.max(1, size); // an empty segment has no address
        MemorySegment bytes = room.bytes.byteSize() < least ? room.grown(least) : room.bytes;
        return bytes.asSlice(0, size);
    }
}
