/** Operators that move boxes of elements and compute nothing: Concat, Split, Slice, Pad; their twins are shared. */
@NullMarked
package dev.octet.trainer.op.copy;

import org.jspecify.annotations.NullMarked;
