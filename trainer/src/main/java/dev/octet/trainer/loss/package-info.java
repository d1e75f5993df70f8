/** Losses as nodes behind a graph: what comes in is a graph with its outputs, what goes out the same graph with one number more. */
@NullMarked
package dev.octet.trainer.loss;

import org.jspecify.annotations.NullMarked;
