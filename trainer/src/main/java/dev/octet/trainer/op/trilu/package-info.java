/** Trilu. */
@NullMarked
package dev.octet.trainer.op.trilu;

import org.jspecify.annotations.NullMarked;
