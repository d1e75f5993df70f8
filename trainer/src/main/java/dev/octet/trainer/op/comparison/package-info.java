/** Comparisons and logic: truth values out, no gradients. */
@NullMarked
package dev.octet.trainer.op.comparison;

import org.jspecify.annotations.NullMarked;
