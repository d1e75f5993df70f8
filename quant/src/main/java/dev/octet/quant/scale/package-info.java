/**
 * How scales follow from largest magnitudes and ranges, how they are stored, and tensors that carry theirs. What comes in: largest
 * magnitudes; what goes out: scales as they will be stored. {@code dev.octet.quant.Quantizer} applies them to bytes.
 */
@NullMarked
package dev.octet.quant.scale;

import org.jspecify.annotations.NullMarked;
