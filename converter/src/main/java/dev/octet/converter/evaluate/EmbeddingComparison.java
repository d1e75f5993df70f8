package dev.octet.converter.evaluate;

/**
 * How near the sentence embeddings are: an output of shape [batch, tokens, size], averaged over the tokens that are not padding and
 * brought to length 1.
 *
 * @param output name of the output
 * @param size length of an embedding
 * @param samples samples compared
 * @param cosineMean mean over samples of the cosine between both models' embeddings
 * @param cosineMin the least of these
 * @param spearman rank correlation between the similarities (cosines) of all pairs of samples in one model and in the other; NaN for
 *     fewer than three samples. Of more than {@link Embeddings#MAX_PAIRED} samples, so many evenly chosen ones are paired
 * @param maxSimilarityDifference greatest change of a pair's similarity
 */
public record EmbeddingComparison(
        String output,
        int size,
        long samples,
        double cosineMean,
        double cosineMin,
        double spearman,
        double maxSimilarityDifference) {}
