/** Tensors that are kept in few bits, read by operators that take floats. */
@NullMarked
package dev.octet.trainer.op.state;

import org.jspecify.annotations.NullMarked;
