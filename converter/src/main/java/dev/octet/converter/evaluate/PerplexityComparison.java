package dev.octet.converter.evaluate;

/**
 * The perplexities of two causal language models on the same tokens.
 *
 * @param change relative change of the perplexity from reference to candidate: 0.005 is half a percent more
 */
public record PerplexityComparison(Perplexity reference, Perplexity candidate, double change) {
    static PerplexityComparison of(Perplexity reference, Perplexity candidate) {
        return new PerplexityComparison(reference, candidate, candidate.perplexity() / reference.perplexity() - 1);
    }
}
