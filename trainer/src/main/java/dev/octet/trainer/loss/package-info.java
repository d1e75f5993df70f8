/** Appends losses to a graph as nodes: input is a graph with its outputs, output the same graph with a loss value. */
@NullMarked
package dev.octet.trainer.loss;

import org.jspecify.annotations.NullMarked;
