package dev.octet.converter.evaluate;

import java.io.Serializable;

/**
 * How close a value inside the candidate is to its counterpart inside the reference on the same samples. Includes the error of all layers
 * before; excludes padding.
 *
 * @param reference name of the value in the reference
 * @param candidate name of the value in the candidate
 * @param elements elements compared
 * @param sqnrDb ratio of the reference's energy to the difference's energy, dB; infinite when equal
 * @param maxAbsDifference greatest difference of two elements
 */
public record LayerComparison(String reference, String candidate, long elements, double sqnrDb, double maxAbsDifference)
        implements Serializable {}
