package dev.octet.converter.sensitivity;

/**
 * What a model's outputs lost to a change of its Linears, over all samples.
 *
 * @param kl Kullback-Leibler divergence of the changed model's distribution over tokens or classes from the original's, in nats, mean over
 *     tokens without padding; NaN where no output has logits
 * @param cosine one minus the cosine between both models' outputs, as {@code octet evaluate} has it: mean over samples, of the worst output
 * @param perplexityChange relative change of the perplexity; NaN where there is no head over tokens
 * @param standardError of the one of {@code kl} and {@code cosine} that is {@linkplain #value(boolean) the loss}: its spread over samples
 */
public record OutputLoss(double kl, double cosine, double perplexityChange, double standardError) {
    /** No change at all. */
    public static final OutputLoss NONE = new OutputLoss(0, 0, 0, 0);

    /** The loss that layers are ranked by: {@code kl} of logits, {@code cosine} of anything else. */
    public double value(boolean logits) {
        return logits ? kl : cosine;
    }
}
