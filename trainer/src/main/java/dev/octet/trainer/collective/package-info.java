/**
 * What ranks of a run do together: sums, copies and messages between processes or threads. In: bytes of one rank, off the heap or on it. Out: the same bytes on every
 * rank that asked for them. Called by {@code reduction} and {@code step}; knows nothing of training.
 */
@NullMarked
package dev.octet.trainer.collective;

import org.jspecify.annotations.NullMarked;
