/** Where. */
@NullMarked
package dev.octet.trainer.op.where;

import org.jspecify.annotations.NullMarked;
