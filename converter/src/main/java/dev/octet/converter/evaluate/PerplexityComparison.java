package dev.octet.converter.evaluate;

/**
 * Two causal language models over the same tokens.
 *
 * @param change by how much the candidate's perplexity differs from the reference's, as a part of the latter: 0.005 is half a percent more
 */
public record PerplexityComparison(Perplexity reference, Perplexity candidate, double change) {
    static PerplexityComparison of(Perplexity reference, Perplexity candidate) {
        return new PerplexityComparison(reference, candidate, candidate.perplexity() / reference.perplexity() - 1);
    }
}
