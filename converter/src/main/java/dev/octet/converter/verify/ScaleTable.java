package dev.octet.converter.verify;

import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.StoredTensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** The values of a checkpoint's scales, read once in the order of its files: small ones only, or all. */
final class ScaleTable {
    /** Longest tensor of scales read without being asked for weights. */
    static final long MAX_BYTES_EACH = 64 << 10;

    /** Most bytes of scales read without being asked for weights: a second on a slow disk. */
    static final long MAX_BYTES = 64L << 20;

    private static final int PIECE_BYTES = 1 << 20;

    private final Map<String, ScaleFacts> facts = new HashMap<>();
    private int unread;

    /** Reads them; {@code all}: whatever their size. */
    static ScaleTable read(Checkpoint checkpoint, List<StoredTensor> scales, boolean all) throws IOException {
        ScaleTable table = new ScaleTable();
        List<StoredTensor> ordered = new ArrayList<>(scales);
        ordered.sort(
                Comparator.comparing((StoredTensor t) -> t.shard().name()).thenComparingLong(StoredTensor::position));
        long budget = MAX_BYTES;
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment buffer = arena.allocate(PIECE_BYTES, 64);
            for (StoredTensor scale : ordered) {
                long bytes = scale.spec().byteSize();
                if (!ScaleFacts.readable(scale.dtype())) {
                    continue;
                }
                if (!all && (bytes > MAX_BYTES_EACH || bytes > budget)) {
                    table.unread++;
                    continue;
                }
                budget -= bytes;
                table.facts.put(scale.name(), facts(checkpoint, scale, buffer));
            }
        }
        return table;
    }

    private static ScaleFacts facts(Checkpoint checkpoint, StoredTensor scale, MemorySegment buffer)
            throws IOException {
        ScaleFacts facts = new ScaleFacts(scale.dtype());
        long bytes = scale.spec().byteSize();
        for (long from = 0; from < bytes; from += buffer.byteSize()) {
            MemorySegment piece = buffer.asSlice(0, Math.min(buffer.byteSize(), bytes - from));
            checkpoint.read(scale, from, piece);
            facts.add(piece);
        }
        return facts;
    }

    /** What is known of a tensor of scales; empty when its values were not read. */
    Optional<ScaleFacts> of(String tensor) {
        return Optional.ofNullable(facts.get(tensor));
    }

    /** How many tensors of scales were too large to be read. */
    int unread() {
        return unread;
    }
}
