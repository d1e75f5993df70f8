package dev.octet.converter.evaluate;

/**
 * How near a value inside the candidate is to its counterpart inside the reference, both models being fed the same samples: the error
 * of all layers up to there. Padding is left out.
 *
 * @param reference name of the value in the reference
 * @param candidate name of the value in the candidate
 * @param elements elements compared
 * @param sqnrDb ratio of the reference's energy to that of the difference, dB; infinite when equal
 * @param maxAbsDifference greatest difference of two elements
 */
public record LayerComparison(
        String reference, String candidate, long elements, double sqnrDb, double maxAbsDifference) {}
