package dev.octet.converter.checkpoint;

import java.io.Serializable;

/**
 * What compensated rounding (GPTQ) left of the error of a weight's outputs over the samples of calibration.
 *
 * @param weight own name
 * @param error squared error of the outputs, summed over the samples
 * @param nearestError the same for rounding to nearest with the same scales
 */
public record RoundedError(String weight, double error, double nearestError) implements Serializable {}
