/** Cast between element types. */
@NullMarked
package dev.octet.trainer.op.cast;

import org.jspecify.annotations.NullMarked;
