/**
 * Checkpoints of Megatron Core ({@code torch_dist}): distributed checkpoints of torch in which layers share tensors, queries lie with their keys and values, and gates
 * with what they gate. In: a folder. Out: tensors as transformers names and orders them.
 */
@NullMarked
package dev.octet.formats.megatron;

import org.jspecify.annotations.NullMarked;
