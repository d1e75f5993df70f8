package dev.octet.trainer.replay;

/**
 * A replay and what it says.
 *
 * @param what was changed, in words
 * @param against what it is compared with
 * @param deviation from that; of the reference itself nothing
 * @param reused whether the replay was found in the log of an earlier examination
 */
public record Experiment(String what, Against against, Replay replay, Deviation deviation, boolean reused) {
    /** What a replay is compared with. */
    public enum Against {
        /** The steps in the type around the products. */
        REFERENCE,
        /** The steps with the same codes and scales, products of what they stand for in the type around them. */
        FAKE_QUANTISATION
    }
}
