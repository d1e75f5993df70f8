/**
 * Combines the results of a training run with its initial graph: puts weights in place of a canonical graph's constants, writes them as
 * ONNX in a chosen type, as a checkpoint of tensors or as the state of Transformer Engine's modules, and reads them back for a proof.
 * Independent of the trainer: tensors come by the names of the canonical graph's constants, scales by its nodes.
 */
@NullMarked
package dev.octet.converter.trained;

import org.jspecify.annotations.NullMarked;
