/** Mixtures of experts: rows of tokens brought to the experts that a router chose, products with a weight for each expert, and the way back. */
@NullMarked
package dev.octet.trainer.op.experts;

import org.jspecify.annotations.NullMarked;
