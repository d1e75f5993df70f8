/**
 * Lowers a graph with concrete shapes to a program: forward steps, casts by the precision policy, and gradient steps between trained
 * parameters and the loss. Also decides which constants of a graph are parameters. Builds programs, does not run them.
 */
@NullMarked
package dev.octet.trainer.autodiff;

import org.jspecify.annotations.NullMarked;
