/**
 * Hugging Face checkpoints as graphs. Comes in: {@code config.json} and the tensors of a checkpoint; goes out: a canonical graph that
 * computes what transformers computes, whose constants are the checkpoint's tensors under their own names, as views of the mapped files.
 * One architecture is one file, listed in {@link HfImporter#ARCHITECTURES}.
 */
@NullMarked
package dev.octet.converter.hf;

import org.jspecify.annotations.NullMarked;
