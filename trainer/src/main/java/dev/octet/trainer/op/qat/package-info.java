/**
 * Fake quantisation whose steps are inputs, so that they can be learned: quantisation-aware training. {@code trainer.qat} puts these operators in front of the operands of
 * products.
 */
@NullMarked
package dev.octet.trainer.op.qat;

import org.jspecify.annotations.NullMarked;
