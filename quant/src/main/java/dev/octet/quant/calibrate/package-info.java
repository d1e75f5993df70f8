/**
 * Calibrators: from what was seen of a tensor to the magnitude that shall map to the largest number of the format. What comes
 * in: {@link dev.octet.quant.statistics.TensorStatistics}, often read from a file long after the run; what goes out: one
 * number per tensor. The scale is that number divided by the format's largest.
 */
@NullMarked
package dev.octet.quant.calibrate;

import org.jspecify.annotations.NullMarked;
