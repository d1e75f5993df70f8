/**
 * What a tensor's elements look like over a data set: range, energy, and a histogram of magnitudes with fixed bins, in constant
 * memory. What comes in: F32 elements, batch by batch; what goes out: a small file that any calibrator can be solved from
 * later, and that merges exactly with another of the same model. Knows no model and no file of elements.
 */
@NullMarked
package dev.octet.quant.statistics;

import org.jspecify.annotations.NullMarked;
