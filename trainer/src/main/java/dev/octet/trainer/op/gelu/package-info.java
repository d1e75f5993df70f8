/** Gelu, exact and by tanh. */
@NullMarked
package dev.octet.trainer.op.gelu;

import org.jspecify.annotations.NullMarked;
