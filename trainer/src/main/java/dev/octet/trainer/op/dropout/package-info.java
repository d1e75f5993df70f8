/** Dropout. */
@NullMarked
package dev.octet.trainer.op.dropout;

import org.jspecify.annotations.NullMarked;
