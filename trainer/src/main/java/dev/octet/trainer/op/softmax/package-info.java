/** Softmax. */
@NullMarked
package dev.octet.trainer.op.softmax;

import org.jspecify.annotations.NullMarked;
