/**
 * Data that models are calibrated and evaluated on. What comes in: a file of arrays or of text and the inputs of a model; what
 * goes out: batches of tensors that fit these inputs, in an order that never changes, and a digest that says which data it was.
 */
@NullMarked
package dev.octet.converter.data;

import org.jspecify.annotations.NullMarked;
