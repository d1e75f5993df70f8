package dev.octet.converter.evaluate;

/**
 * How well a causal language model predicts texts.
 *
 * @param tokens number of predicted tokens: all but the first of each text, without padding
 * @param loss mean negative log-likelihood (natural logarithm) of these tokens
 * @param perplexity e to the power of the loss
 */
public record Perplexity(long tokens, double loss, double perplexity) {
    static Perplexity of(long tokens, double sum) {
        double loss = sum / tokens;
        return new Perplexity(tokens, loss, Math.exp(loss));
    }
}
