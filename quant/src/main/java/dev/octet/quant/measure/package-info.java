/**
 * Measures the difference of tensors and the use of a format. In: runs of floats, any number of them. Out: decibels, cosines, shares. Sums
 * are doubles and can be merged, so tensors may be measured piece by piece.
 */
@NullMarked
package dev.octet.quant.measure;

import org.jspecify.annotations.NullMarked;
