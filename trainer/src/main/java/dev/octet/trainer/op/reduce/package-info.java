/** Reductions over axes: sums, means, extremes, norms. */
@NullMarked
package dev.octet.trainer.op.reduce;

import org.jspecify.annotations.NullMarked;
