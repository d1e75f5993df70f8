/**
 * Data to train on. What comes in: files of arrays, tokens or texts and the inputs of a graph; what goes out: micro-batches of tensors
 * in an order that follows from the seed alone and can be entered anywhere.
 */
@NullMarked
package dev.octet.trainer.data;

import org.jspecify.annotations.NullMarked;
