/** Rotary position embedding. */
@NullMarked
package dev.octet.trainer.op.rotary;

import org.jspecify.annotations.NullMarked;
