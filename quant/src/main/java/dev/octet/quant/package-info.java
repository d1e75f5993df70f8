/**
 * The numerics of FP8 in one class: {@link dev.octet.quant.Quantizer} turns float tensors into codes with scales and back. The
 * rooms below hold the nouns (number, block, scale) and the doers (cast, measure).
 */
@NullMarked
package dev.octet.quant;

import org.jspecify.annotations.NullMarked;
