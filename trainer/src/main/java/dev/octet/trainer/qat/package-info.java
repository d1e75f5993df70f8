/**
 * Quantisation-aware training: fake quantisation put in front of the operands of products, with the parameters that it learns, where these start, and their names in checkpoints.
 */
@NullMarked
package dev.octet.trainer.qat;

import org.jspecify.annotations.NullMarked;
