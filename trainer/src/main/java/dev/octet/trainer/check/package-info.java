/** Outputs and gradients of a graph beside expected ones: for users who debug their graphs, and for our own tests. */
@NullMarked
package dev.octet.trainer.check;

import org.jspecify.annotations.NullMarked;
