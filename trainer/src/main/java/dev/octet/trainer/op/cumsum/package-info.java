/** CumSum. */
@NullMarked
package dev.octet.trainer.op.cumsum;

import org.jspecify.annotations.NullMarked;
