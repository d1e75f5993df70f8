package dev.octet.formats.model;

import dev.octet.formats.tensor.TensorSpec;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * The tensors of one file and their positions, whatever the format.
 *
 * @param metadata the file's free text by key, in the order of the file
 * @param entries all tensors in the order of their bytes
 * @param fileBytes bytes of the whole file
 */
public record ShardHeader(Map<String, String> metadata, List<Entry> entries, long fileBytes) {
    /**
     * One tensor.
     *
     * @param position its first byte, counted from the start of the file
     * @param pieces where its elements lie instead, in files of a format that does not keep them in one run; empty where {@code position} says it
     */
    public record Entry(TensorSpec spec, long position, Optional<Pieces> pieces) {
        /** A tensor whose bytes are one run of the file. */
        public Entry(TensorSpec spec, long position) {
            this(spec, position, Optional.empty());
        }
    }

    /** Bytes of all tensors. */
    public long dataBytes() {
        return entries.stream().mapToLong(e -> e.spec().byteSize()).sum();
    }
}
