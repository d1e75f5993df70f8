/**
 * One training step, from micro-batches to new parameters: programs per shape, the memory they share, loss scaling, and the search for
 * non-finite numbers. Reads and writes no files.
 */
@NullMarked
package dev.octet.trainer.step;

import org.jspecify.annotations.NullMarked;
