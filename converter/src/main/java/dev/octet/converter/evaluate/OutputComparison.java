package dev.octet.converter.evaluate;

/**
 * How close an output of the candidate is to the reference's. Excludes padding, as marked by the attention mask.
 *
 * @param output name of the output
 * @param samples samples compared
 * @param cosineMean mean over samples of the cosine between both outputs of a sample, each as one vector
 * @param cosineMin the least of these
 * @param sqnrDb ratio of the reference's energy to the difference's energy, over all elements, dB; infinite when equal
 * @param maxAbsDifference greatest difference of two elements
 * @param top1Agreement share of rows (innermost axis) whose largest element has the same index, 0..1; NaN unless the output looks like
 *     class scores, that is, has rank 2 or a name with logits, scores or probabilities
 */
public record OutputComparison(
        String output,
        long samples,
        double cosineMean,
        double cosineMin,
        double sqnrDb,
        double maxAbsDifference,
        double top1Agreement) {}
