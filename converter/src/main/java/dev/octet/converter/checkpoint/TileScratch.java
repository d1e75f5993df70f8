package dev.octet.converter.checkpoint;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.EnumMap;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/** Buffers of one worker, used again for every tile; each grows to the largest tile it meets. */
public final class TileScratch implements Buffers {
    private static final long ALIGNMENT = 64;

    private final Arena arena;
    private final Map<Use, MemorySegment> buffers = new EnumMap<>(Use.class);

    private TileScratch(Arena arena) {
        this.arena = arena;
    }

    @Override
    public MemorySegment buffer(Use use, long bytes) {
        MemorySegment buffer = buffers.getOrDefault(use, MemorySegment.NULL);
        if (buffer.byteSize() < bytes) {
            buffer = arena.allocate(Math.max(bytes, Math.min(2 * buffer.byteSize(), bytes + (1L << 20))), ALIGNMENT);
            buffers.put(use, buffer);
        }
        return buffer.asSlice(0, bytes);
    }

    /** Hands scratch memory to as many workers as ask at a time; closing frees all of it. */
    public static final class Pool implements AutoCloseable {
        private final Arena arena = Arena.ofShared();
        private final Queue<TileScratch> free = new ConcurrentLinkedQueue<>();

        /** An empty pool. */
        public Pool() {}

        /** Scratch memory that nobody else has until it is {@linkplain #give given back}. */
        public TileScratch take() {
            TileScratch scratch = free.poll();
            return scratch == null ? new TileScratch(arena) : scratch;
        }

        /** Takes scratch memory back. */
        public void give(TileScratch scratch) {
            free.add(scratch);
        }

        @Override
        public void close() {
            arena.close();
        }
    }
}
