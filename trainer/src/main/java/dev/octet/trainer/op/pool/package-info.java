/** Pooling over windows, and over whole planes. */
@NullMarked
package dev.octet.trainer.op.pool;

import org.jspecify.annotations.NullMarked;
