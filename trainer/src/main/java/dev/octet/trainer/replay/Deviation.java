package dev.octet.trainer.replay;

/**
 * How far a replay is from the reference, and how much farther than it may be.
 *
 * @param excess the largest of all distances, each divided by what noise explains of it; a replay above 1 is sick. Infinite where something
 *     is not finite
 * @param by what is farthest off, in words: {@code gradient of h.0.mlp.weight in step 3}
 * @param loss largest {@code |loss - reference|} of any step
 * @param error largest relative error of a gradient, {@code |g - r| / |r|}
 * @param cosine smallest cosine of a gradient with the reference
 * @param gain largest share by which a gradient is too long or too short along the reference, {@code |g·r / r·r - 1|}
 * @param update smallest cosine of an update of all steps with the reference
 */
public record Deviation(
        double excess, String by, double loss, double error, double cosine, double gain, double update) {
    /** Of the reference from itself. */
    static final Deviation NONE = new Deviation(0, "", 0, 0, 1, 0, 1);

    /** Whether noise does not explain it. */
    public boolean isSick() {
        return excess > 1;
    }
}
