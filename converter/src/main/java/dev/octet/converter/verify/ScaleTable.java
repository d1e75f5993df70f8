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

    /** Bytes between two scales that are read and thrown away rather than read around. */
    private static final int MAX_GAP_BYTES = 4096;

    private final Map<String, ScaleFacts> facts = new HashMap<>();
    private int unread;

    /** Reads them; {@code all}: of any size. */
    static ScaleTable read(Checkpoint checkpoint, List<StoredTensor> scales, boolean all) throws IOException {
        ScaleTable table = new ScaleTable();
        List<StoredTensor> ordered = new ArrayList<>(scales);
        ordered.sort(
                Comparator.comparing((StoredTensor t) -> t.shard().name()).thenComparingLong(StoredTensor::position));
        long budget = MAX_BYTES;
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment buffer = arena.allocate(PIECE_BYTES, 64);
            List<StoredTensor> together = new ArrayList<>();
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
                if (!together.isEmpty() && !isReadWith(together, scale)) {
                    table.addTogether(checkpoint, together, buffer);
                    together.clear();
                }
                together.add(scale);
            }
            table.addTogether(checkpoint, together, buffer);
        }
        return table;
    }

    /**
     * Whether a scale follows others so closely that one read gets them all: a call for each of 150,000 takes longer than everything else.
     */
    private static boolean isReadWith(List<StoredTensor> others, StoredTensor scale) {
        StoredTensor first = others.getFirst();
        StoredTensor last = others.getLast();
        long end = scale.position() + scale.spec().byteSize();
        return scale.shard().equals(first.shard())
                && scale.position() - last.position() - last.spec().byteSize() <= MAX_GAP_BYTES
                && end - first.position() <= PIECE_BYTES;
    }

    private void addTogether(Checkpoint checkpoint, List<StoredTensor> scales, MemorySegment buffer)
            throws IOException {
        if (scales.size() == 1) {
            facts.put(scales.getFirst().name(), facts(checkpoint, scales.getFirst(), buffer));
        } else if (!scales.isEmpty()) {
            StoredTensor last = scales.getLast();
            long from = scales.getFirst().position();
            checkpoint.read(
                    last.shard(),
                    from,
                    buffer.asSlice(0, last.position() + last.spec().byteSize() - from));
            for (StoredTensor scale : scales) {
                ScaleFacts found = new ScaleFacts(scale.dtype());
                found.add(buffer.asSlice(scale.position() - from, scale.spec().byteSize()));
                facts.put(scale.name(), found);
            }
        }
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
