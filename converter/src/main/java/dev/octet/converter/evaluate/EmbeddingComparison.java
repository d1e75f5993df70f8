package dev.octet.converter.evaluate;

/**
 * How close the sentence embeddings of two models are. An embedding is an output of shape [batch, tokens, size], averaged over the tokens
 * without padding and normalised to length 1.
 *
 * @param output name of the output
 * @param size length of an embedding
 * @param samples samples compared
 * @param cosineMean mean over samples of the cosine between both models' embeddings
 * @param cosineMin the least of these
 * @param spearman rank correlation between the two models' similarities (cosines) of all pairs of samples; NaN for fewer than three
 *     samples. Of more than {@link Embeddings#MAX_PAIRED} samples, that many are chosen at even distances
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
