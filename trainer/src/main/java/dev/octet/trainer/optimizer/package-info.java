/**
 * Parameter updates: optimizers and their hyperparameters, learning-rate schedules, and the program of {@code UPDATE} steps, which runs on
 * any device.
 */
@NullMarked
package dev.octet.trainer.optimizer;

import org.jspecify.annotations.NullMarked;
