/** Scaled dot-product attention. */
@NullMarked
package dev.octet.trainer.op.attention;

import org.jspecify.annotations.NullMarked;
