/**
 * Checkpoints of any size, streamed: which of their weights become FP8, and how tensors go from one file to another, tile by tile, at the
 * speed of the disk and with memory that does not grow with the model. Comes in: a {@code Checkpoint} and a recipe or layout; goes out: a
 * folder with the same tensors in another layout. {@code dev.octet.converter.CheckpointConverter} joins the parts.
 */
@NullMarked
package dev.octet.converter.checkpoint;

import org.jspecify.annotations.NullMarked;
