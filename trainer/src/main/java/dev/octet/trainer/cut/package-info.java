/**
 * Layers that tensor-parallel ranks share: which axes of which weights and activations are cut, the graph of one rank with what it exchanges with the others, and the parts of tensors that it
 * keeps. In: a graph at concrete shapes. Out: a graph that autodiff, precision and optimizers take for any other. Used by a step and by checkpoints.
 */
@NullMarked
package dev.octet.trainer.cut;

import org.jspecify.annotations.NullMarked;
