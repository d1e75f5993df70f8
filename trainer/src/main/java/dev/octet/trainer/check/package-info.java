/** Compares outputs and gradients of a graph with expected ones: for users who debug their graphs, and for Octet's own tests. */
@NullMarked
package dev.octet.trainer.check;

import org.jspecify.annotations.NullMarked;
