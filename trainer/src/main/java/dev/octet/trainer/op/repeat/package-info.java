/** Operators that repeat elements: Expand, Tile. */
@NullMarked
package dev.octet.trainer.op.repeat;

import org.jspecify.annotations.NullMarked;
