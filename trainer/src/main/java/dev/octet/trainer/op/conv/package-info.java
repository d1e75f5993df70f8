/** Convolution. */
@NullMarked
package dev.octet.trainer.op.conv;

import org.jspecify.annotations.NullMarked;
