package dev.octet.formats.checkpoint;

import dev.octet.formats.safetensors.SafetensorsHeader;
import java.nio.file.Path;

/**
 * One safetensors file of a checkpoint.
 *
 * @param name file name
 * @param path where it lies
 * @param header which tensor lies where in it
 */
public record Shard(String name, Path path, SafetensorsHeader header) {}
