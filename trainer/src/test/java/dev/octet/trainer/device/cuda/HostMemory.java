package dev.octet.trainer.device.cuda;

import dev.octet.formats.error.UnavailableException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Map;
import java.util.TreeMap;

/** Device memory of {@link HostGpu}: native memory, each piece between two zones that nobody may write. */
final class HostMemory implements AutoCloseable {
    private static final long ZONE = 256;

    private record Piece(Arena arena, MemorySegment whole, long bytes, String what) {
        long address() {
            return whole.address() + ZONE;
        }

        MemorySegment part(long offset, long length) {
            return whole.asSlice(ZONE + offset, length);
        }
    }

    private final TreeMap<Long, Piece> pieces = new TreeMap<>();
    private final MemorySegment zone;
    private final long total;
    private long used;

    /** @param zoneFill what the zones hold: who reads it computes something else with another one */
    HostMemory(long total, byte zoneFill) {
        this.total = total;
        this.zone = Arena.ofAuto().allocate(ZONE).fill(zoneFill);
    }

    long free() {
        return total - used;
    }

    long allocate(long bytes, String what) {
        if (bytes > free()) {
            throw new UnavailableException(
                    bytes + " bytes for " + what + " do not fit into the GPU's memory",
                    used + " of " + total + " bytes are in use",
                    "use smaller batches");
        }
        Arena arena = Arena.ofShared();
        // a whole number of 256 bytes is not needed: the zone starts at the first byte behind
        MemorySegment whole = arena.allocate(bytes + 2 * ZONE, 256);
        whole.asSlice(0, ZONE).copyFrom(zone);
        whole.asSlice(ZONE + bytes, ZONE).copyFrom(zone);
        Piece piece = new Piece(arena, whole, bytes, what);
        pieces.put(piece.address(), piece);
        used += bytes;
        return piece.address();
    }

    void release(long address) {
        Piece piece = pieces.remove(address);
        if (piece == null) {
            throw new IllegalArgumentException(
                    "release of 0x" + Long.toHexString(address) + ", which is not allocated");
        }
        checkZones(piece, "before the release of " + piece.what());
        used -= piece.bytes();
        piece.arena().close();
    }

    /** The bytes at an address; IllegalStateException when not all are of one piece. */
    MemorySegment at(long address, long bytes, String what) {
        Map.Entry<Long, Piece> below = pieces.floorEntry(address);
        if (below != null) {
            long offset = address - below.getKey();
            if (bytes >= 0 && offset + bytes <= below.getValue().bytes()) {
                return below.getValue().part(offset, bytes);
            }
        }
        throw new IllegalStateException(what + ": " + bytes + " bytes at 0x" + Long.toHexString(address)
                + " are not within one allocation"
                + (below == null
                        ? ""
                        : "; the one before has " + below.getValue().bytes() + " bytes from 0x"
                                + Long.toHexString(below.getKey()) + ": "
                                + below.getValue().what()));
    }

    /** Checks that nobody wrote outside of the pieces. */
    void checkZones(String after) {
        for (Piece piece : pieces.values()) {
            checkZones(piece, after);
        }
    }

    private void checkZones(Piece piece, String after) {
        check(piece, piece.whole().asSlice(0, ZONE).mismatch(zone), -ZONE, after);
        check(piece, piece.whole().asSlice(ZONE + piece.bytes(), ZONE).mismatch(zone), piece.bytes(), after);
    }

    private static void check(Piece piece, long mismatch, long offset, String after) {
        if (mismatch >= 0) {
            throw new IllegalStateException(after + " wrote outside of an allocation: byte " + (offset + mismatch)
                    + " of " + piece.what() + ", which has " + piece.bytes() + " bytes");
        }
    }

    @Override
    public void close() {
        pieces.values().forEach(p -> p.arena().close());
        pieces.clear();
    }
}
