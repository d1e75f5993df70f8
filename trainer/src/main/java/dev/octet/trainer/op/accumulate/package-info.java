/** Accumulate: contributions to one gradient, added. */
@NullMarked
package dev.octet.trainer.op.accumulate;

import org.jspecify.annotations.NullMarked;
