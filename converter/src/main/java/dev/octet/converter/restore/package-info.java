/**
 * ONNX models back to Hugging Face checkpoints. Comes in: a canonical graph at numbers for sizes; goes out: a configuration of a known
 * architecture, its tensors under their names, and the proof that both compute the same. What decides is the structure of the graph, not
 * the names in it.
 */
@NullMarked
package dev.octet.converter.restore;

import org.jspecify.annotations.NullMarked;
