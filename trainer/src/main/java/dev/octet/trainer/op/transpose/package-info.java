/** Transpose. */
@NullMarked
package dev.octet.trainer.op.transpose;

import org.jspecify.annotations.NullMarked;
