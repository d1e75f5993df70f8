package dev.octet.trainer.replay;

/**
 * A replay and what it says.
 *
 * @param what was changed, in words
 * @param deviation from the reference; of the reference itself nothing
 * @param reused whether the replay was found in the log of an earlier examination
 */
public record Experiment(String what, Replay replay, Deviation deviation, boolean reused) {}
