/**
 * Converts checkpoints of any size: decides which weights become FP8 and streams tensors from file to file, tile by tile, at the speed of
 * the disk and with memory that does not grow with the model. In: a {@code Checkpoint} and a recipe or layout. Out: a folder with the same
 * tensors in another layout. {@code dev.octet.converter.CheckpointConverter} combines the parts.
 */
@NullMarked
package dev.octet.converter.checkpoint;

import org.jspecify.annotations.NullMarked;
