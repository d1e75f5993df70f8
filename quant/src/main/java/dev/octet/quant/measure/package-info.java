/**
 * How far one tensor is from another, and how well a format was used. What comes in: runs of floats, as many and as often as one likes;
 * what goes out: decibels, cosines, shares. Sums are doubles and mergeable, so tensors may be measured piece by piece.
 */
@NullMarked
package dev.octet.quant.measure;

import org.jspecify.annotations.NullMarked;
