/**
 * Hyperparameters that only one optimizer has, by the names of its library, and what follows from them for a tensor. Read from a configuration, carried by an optimizer,
 * used by the twins of its step.
 */
@NullMarked
package dev.octet.trainer.rule;

import org.jspecify.annotations.NullMarked;
