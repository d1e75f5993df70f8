package dev.octet.trainer.precision;

/**
 * A matrix product of a graph that FP8 leaves alone.
 *
 * @param node id of its node
 * @param reason why, the same words for the same reason
 */
public record KeptLinear(String node, String reason) {}
