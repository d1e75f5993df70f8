package dev.octet.formats.pickle;

/**
 * Limits of a pickle, against files that exhaust memory or stack.
 *
 * @param maxBytes longest pickle; one of a checkpoint of a million tensors has some 300 MB
 * @param maxValues most values, all memo entries and elements of lists counted
 * @param maxNumberBytes longest integer
 */
public record PickleLimits(long maxBytes, long maxValues, int maxNumberBytes) {
    /** Far above what torch, DeepSpeed and Megatron write. */
    public static final PickleLimits DEFAULT = new PickleLimits(1L << 30, 1L << 26, 64);
}
