package dev.octet.formats.model;

import java.nio.file.Path;

/**
 * One file of a checkpoint.
 *
 * @param name file name
 * @param path its path
 * @param header its tensors and their positions
 */
public record Shard(String name, Path path, ShardHeader header) {}
