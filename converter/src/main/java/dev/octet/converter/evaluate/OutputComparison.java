package dev.octet.converter.evaluate;

/**
 * How near one output of the candidate is to the reference's. Padding (by the attention mask) is left out.
 *
 * @param output name of the output
 * @param samples samples compared
 * @param cosineMean mean over samples of the cosine between both outputs of a sample, all its elements taken as one vector
 * @param cosineMin the least of these
 * @param sqnrDb ratio of the reference's energy to that of the difference, over all elements, dB; infinite when equal
 * @param maxAbsDifference greatest difference of two elements
 * @param top1Agreement share of rows (innermost axis) whose greatest element is at the same place, 0..1; NaN when the output is not like
 *     class scores, that is neither of rank 2 nor named after logits, scores or probabilities
 */
public record OutputComparison(
        String output,
        long samples,
        double cosineMean,
        double cosineMin,
        double sqnrDb,
        double maxAbsDifference,
        double top1Agreement) {}
