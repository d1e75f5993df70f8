/** Batch normalisation with running statistics. */
@NullMarked
package dev.octet.trainer.op.batchnorm;

import org.jspecify.annotations.NullMarked;
