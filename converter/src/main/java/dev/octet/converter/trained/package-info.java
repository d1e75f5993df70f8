/**
 * What a training run leaves, joined with the graph it began with: weights put in place of a canonical graph's constants, written as ONNX in
 * a chosen type, as a checkpoint of tensors, as the state of Transformer Engine's modules; and read back for a proof. The trainer is not
 * known here: tensors come by the names of the canonical graph's constants, scales by its nodes.
 */
@NullMarked
package dev.octet.converter.trained;

import org.jspecify.annotations.NullMarked;
