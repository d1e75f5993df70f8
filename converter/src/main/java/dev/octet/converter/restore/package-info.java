/**
 * Turns ONNX models back into Hugging Face checkpoints. In: a canonical graph with fixed sizes. Out: a configuration of a known
 * architecture, its tensors under their names, and the proof that both compute the same. The structure of the graph decides, not the names
 * in it.
 */
@NullMarked
package dev.octet.converter.restore;

import org.jspecify.annotations.NullMarked;
