package dev.octet.converter.evaluate;

/**
 * How well a causal language model foretells texts.
 *
 * @param tokens tokens that were foretold: all but the first of each text, no padding
 * @param loss mean over these tokens of the negative natural logarithm of the probability that the model gave them
 * @param perplexity e to the power of the loss
 */
public record Perplexity(long tokens, double loss, double perplexity) {
    static Perplexity of(long tokens, double sum) {
        double loss = sum / tokens;
        return new Perplexity(tokens, loss, Math.exp(loss));
    }
}
