/**
 * FP8 in training steps: tensors quantised with scales of their own or of earlier steps, Linears on quantised operands, amax histories
 * rolled. Programs make these operators themselves, as {@code trainer.precision} says; no node is one.
 */
@NullMarked
package dev.octet.trainer.op.fp8;

import org.jspecify.annotations.NullMarked;
