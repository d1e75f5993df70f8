/**
 * Which elements share a scale, how the scale follows from them, and tensors that carry theirs. What comes in: shapes and largest
 * magnitudes; what goes out: scales as they will be stored. {@code dev.octet.quant.Quantizer} applies them to bytes.
 */
@NullMarked
package dev.octet.quant.scale;

import org.jspecify.annotations.NullMarked;
