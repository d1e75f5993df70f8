/**
 * Checkpoints too large for memory: where each tensor of a safetensors file, an index of shards or a Hugging Face folder lies, and its
 * bytes by position, piece by piece. Comes in: a path; goes out: headers, configuration, bytes. Nothing is mapped, so what is read does
 * not count as memory of the process.
 */
@NullMarked
package dev.octet.formats.checkpoint;

import org.jspecify.annotations.NullMarked;
