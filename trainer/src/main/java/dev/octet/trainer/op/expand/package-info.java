/** Operators that repeat elements: Expand, Tile. */
@NullMarked
package dev.octet.trainer.op.expand;

import org.jspecify.annotations.NullMarked;
