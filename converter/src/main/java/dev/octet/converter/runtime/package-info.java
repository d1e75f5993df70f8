/**
 * Runs models in ONNX Runtime; the only room that depends on it. In: a model and batches of data. Out: outputs, or statistics of values
 * inside the model.
 */
@NullMarked
package dev.octet.converter.runtime;

import org.jspecify.annotations.NullMarked;
