package dev.octet.converter.compare;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.concurrent.ConcurrentLinkedQueue;

/** Memory for one tile of both sides, used by one thread at a time and kept for the next tile. */
final class TileBuffers implements AutoCloseable {
    /** Values of A, values of B, multipliers of A, multipliers of B. */
    private static final int PARTS = 4;

    /** One arena for each part: an arena frees its memory only as a whole, and a part may grow while the others are in use. */
    private final Arena[] arenas = new Arena[PARTS];

    private final MemorySegment[] parts = new MemorySegment[PARTS];

    private TileBuffers() {
        Arrays.setAll(arenas, i -> Arena.ofShared());
        Arrays.fill(parts, MemorySegment.NULL);
    }

    /** Part {@code i} with {@code bytes} bytes of undefined contents. Invalidates the previous segment of this part. */
    MemorySegment part(int i, long bytes) {
        if (parts[i].byteSize() < bytes) {
            arenas[i].close();
            arenas[i] = Arena.ofShared();
            parts[i] = arenas[i].allocate(bytes, 64);
        }
        return parts[i].asSlice(0, bytes);
    }

    @Override
    public void close() {
        for (Arena arena : arenas) {
            arena.close();
        }
    }

    /** Buffers of all threads. */
    static final class Pool implements AutoCloseable {
        private final ConcurrentLinkedQueue<TileBuffers> free = new ConcurrentLinkedQueue<>();

        /** Buffers for exclusive use. */
        TileBuffers take() {
            TileBuffers buffers = free.poll();
            return buffers == null ? new TileBuffers() : buffers;
        }

        /** Makes the buffers available again. */
        void giveBack(TileBuffers buffers) {
            free.add(buffers);
        }

        @Override
        public void close() {
            free.forEach(TileBuffers::close);
            free.clear();
        }
    }
}
