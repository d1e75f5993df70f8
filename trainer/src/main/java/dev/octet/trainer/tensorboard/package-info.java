/** Event files that TensorBoard reads. Knows bytes only. */
@NullMarked
package dev.octet.trainer.tensorboard;

import org.jspecify.annotations.NullMarked;
