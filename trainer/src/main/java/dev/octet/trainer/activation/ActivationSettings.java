package dev.octet.trainer.activation;

/**
 * What a training step keeps between forward and backward.
 *
 * @param recompute what backward computes again; the numbers of the step stay the same, bit for bit
 * @param kept how the rest is kept; anything but {@link Kept#AS_THEY_ARE} changes gradients
 */
public record ActivationSettings(Recompute recompute, Kept kept) {
    /** Everything is kept as it is. */
    public static final ActivationSettings NONE = new ActivationSettings(Recompute.NONE, Kept.AS_THEY_ARE);
}
