/**
 * How far one tensor is from another. What comes in: runs of floats, as many and as often as one likes; what goes out: decibels, cosines.
 * Sums are doubles and mergeable, so tensors may be measured piece by piece.
 */
@NullMarked
package dev.octet.quant.measure;

import org.jspecify.annotations.NullMarked;
