package dev.octet.formats.model;

import java.util.List;

/** The files of one checkpoint, and what its format says of them as a whole. */
public interface ShardSet {
    /** The files, sorted by name. */
    List<Shard> shards();

    /** What a user should know of them, a sentence each: what is in the files and is no tensor of the model, what was renamed. */
    default List<String> notes() {
        return List.of();
    }
}
