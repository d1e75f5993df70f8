/**
 * One step of a run, from micro-batches to new parameters: programs per shape, the memory they share, loss scaling, and what was not
 * finite. Knows no files.
 */
@NullMarked
package dev.octet.trainer.step;

import org.jspecify.annotations.NullMarked;
