/**
 * Models run by ONNX Runtime; the only room that knows it. What comes in: a model and batches of data; what goes out: outputs, or
 * the statistics of values inside the model.
 */
@NullMarked
package dev.octet.converter.runtime;

import org.jspecify.annotations.NullMarked;
