/**
 * Checkpoints larger than memory: locates the tensors of a safetensors file, an index of shards or a Hugging Face folder and reads their
 * bytes piece by piece. In: a path. Out: headers, configuration, bytes. Nothing is mapped, so file pages do not count as memory of the
 * process.
 */
@NullMarked
package dev.octet.formats.checkpoint;

import org.jspecify.annotations.NullMarked;
