/** Observers of a running training: one interface for metrics, checkpoints, watchdogs and callers' own hooks. */
@NullMarked
package dev.octet.trainer.hook;

import org.jspecify.annotations.NullMarked;
