/**
 * What a run needs to go on as if it had never stopped, in files: masters, moments, scales, histories, positions. Written whole or not at
 * all, with digests.
 */
@NullMarked
package dev.octet.trainer.checkpoint;

import org.jspecify.annotations.NullMarked;
