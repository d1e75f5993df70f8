/**
 * Saves and restores the complete state of a run: masters, moments, scales, histories and positions. A resumed run continues as if it had
 * never stopped. Checkpoints are written atomically, with digests.
 */
@NullMarked
package dev.octet.trainer.checkpoint;

import org.jspecify.annotations.NullMarked;
