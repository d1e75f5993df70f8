/** Gather: embeddings and picked slices. */
@NullMarked
package dev.octet.trainer.op.gather;

import org.jspecify.annotations.NullMarked;
