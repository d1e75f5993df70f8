package dev.octet.formats.model;

import java.util.List;

/** The files of one checkpoint, and what its format says of them as a whole. */
public interface ShardSet {
    /** The files, sorted by name. */
    List<Shard> shards();
}
