package dev.octet.quant.gptq;

/**
 * How errors are compensated.
 *
 * @param damping what is added to the diagonal of H, as a share of its mean: keeps channels that were hardly seen from taking large
 *     corrections on the word of few samples. 0 to 1
 * @param largestFirst whether input channels are rounded in descending order of their sums of squares, so that the costliest errors
 *     find the most channels left to compensate them; else in the order of the weight
 */
public record GptqOptions(double damping, boolean largestFirst) {
    /** @throws IllegalArgumentException when the damping is outside 0 to 1 */
    public GptqOptions {
        if (!(damping >= 0 && damping <= 1)) {
            throw new IllegalArgumentException("damping " + damping + " is outside 0 to 1");
        }
    }

    /**
     * Damping 0.05, largest first. On a sentence encoder of 36 layers dampings from 0.001 to 0.1 gave the same mean similarity to
     * within 2e-5, 0.05 and 0.1 the best worst case; the order of the weight instead of largest first cost 1e-4.
     */
    public GptqOptions() {
        this(0.05, true);
    }
}
