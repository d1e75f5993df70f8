/** Operators that give the same elements another shape: Reshape, Flatten, Squeeze, Unsqueeze, Identity, Dropout. */
@NullMarked
package dev.octet.trainer.op.view;

import org.jspecify.annotations.NullMarked;
