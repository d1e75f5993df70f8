/**
 * Data for calibration and evaluation. In: a file of arrays or text, and the inputs of a model. Out: batches of tensors that fit these
 * inputs, in a fixed order, and a digest that identifies the data.
 */
@NullMarked
package dev.octet.converter.data;

import org.jspecify.annotations.NullMarked;
