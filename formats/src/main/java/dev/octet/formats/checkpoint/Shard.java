package dev.octet.formats.checkpoint;

import dev.octet.formats.safetensors.SafetensorsHeader;
import java.nio.file.Path;

/**
 * One safetensors file of a checkpoint.
 *
 * @param name file name
 * @param path its path
 * @param header its tensors and their positions
 */
public record Shard(String name, Path path, SafetensorsHeader header) {}
