/** Outputs and gradients of a graph compared with expected ones: for users who debug their graphs, and for our own tests. */
@NullMarked
package dev.octet.trainer.check;

import org.jspecify.annotations.NullMarked;
