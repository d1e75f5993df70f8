/** Normalisation over rows: LayerNormalization and RMSNormalization. */
@NullMarked
package dev.octet.trainer.op.norm;

import org.jspecify.annotations.NullMarked;
