package dev.octet.trainer.hook;

/**
 * A non-finite loss or gradient.
 *
 * @param what {@code loss}, {@code gradient of encoder.weight} etc.
 * @param where node, operator and product of the program's first step with a non-finite result from finite inputs; empty when it was not
 *     searched for
 * @param skipped whether the run continues
 */
public record NonFinite(long step, String what, String where, boolean skipped) {}
