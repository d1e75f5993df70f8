/**
 * How gradients change parameters: optimizers with their numbers, learning rates over a run, and the program of {@code UPDATE} steps
 * made of them, which runs on any device.
 */
@NullMarked
package dev.octet.trainer.optimizer;

import org.jspecify.annotations.NullMarked;
