package dev.octet.formats.model;

import dev.octet.formats.tensor.TensorSpec;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;

/**
 * Tensors in pieces as if they lay in files of safetensors, which is what they are written to: one file, or several of at most {@link #SHARD_BYTES}.
 *
 * @param notes as {@link ShardSet#notes}
 */
public record PiecedShards(List<Shard> shards, List<String> notes) implements ShardSet {
    /** The usual size of a file in folders of Hugging Face; only a larger tensor makes a larger file. */
    public static final long SHARD_BYTES = 5_000_000_000L;

    public PiecedShards {
        shards = List.copyOf(shards);
        notes = List.copyOf(notes);
    }

    /** A tensor and where it lies. */
    public record Located(TensorSpec spec, Pieces pieces) {}

    /**
     * Shares tensors out among files in the order given.
     *
     * @param path a file that says where they lie
     */
    public static PiecedShards of(Path path, List<Located> tensors, List<String> notes) {
        return of(path, tensors, notes, SHARD_BYTES);
    }

    static PiecedShards of(Path path, List<Located> tensors, List<String> notes, long shardBytes) {
        List<List<Located>> files = new ArrayList<>();
        long bytes = 0;
        for (Located tensor : tensors) {
            long size = tensor.spec().byteSize();
            if (files.isEmpty() || bytes > shardBytes - Math.min(size, shardBytes)) {
                files.add(new ArrayList<>());
                bytes = 0;
            }
            files.getLast().add(tensor);
            bytes += size;
        }
        List<Shard> shards = new ArrayList<>();
        for (int i = 0; i < files.size(); i++) {
            String name = files.size() == 1
                    ? "model.safetensors"
                    : String.format(Locale.ROOT, "model-%05d-of-%05d.safetensors", i + 1, files.size());
            List<ShardHeader.Entry> entries = new ArrayList<>();
            long at = 0;
            for (Located tensor : files.get(i)) {
                entries.add(new ShardHeader.Entry(tensor.spec(), at, Optional.of(tensor.pieces())));
                at += tensor.spec().byteSize();
            }
            shards.add(new Shard(name, path, new ShardHeader(Map.of("format", "pt"), List.copyOf(entries), at)));
        }
        return new PiecedShards(shards, notes);
    }
}
