package dev.octet.formats.model;

import java.nio.file.Path;
import java.util.LinkedHashSet;
import java.util.Set;

/**
 * One file of a checkpoint.
 *
 * @param name file name; of tensors in pieces, the name of the file that holds them when they are written as safetensors
 * @param path its path; of tensors in pieces, a file that says where they lie
 * @param header its tensors and their positions; of tensors in pieces, as if each were one run after the other
 */
public record Shard(String name, Path path, ShardHeader header) {
    /** All files that its tensors are read from, and {@link #path}. */
    public Set<Path> files() {
        Set<Path> files = new LinkedHashSet<>();
        files.add(path);
        header.entries().forEach(e -> e.pieces().ifPresent(p -> files.addAll(p.files())));
        return files;
    }
}
