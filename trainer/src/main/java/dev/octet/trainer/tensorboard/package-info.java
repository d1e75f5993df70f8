/** Writes event files for TensorBoard. Only the file format; metrics are chosen by the caller. */
@NullMarked
package dev.octet.trainer.tensorboard;

import org.jspecify.annotations.NullMarked;
