package dev.octet.trainer.hook;

/**
 * A loss or gradient that is not finite.
 *
 * @param what as {@code loss} or {@code gradient of encoder.weight}
 * @param where the first step of the program whose result is not finite although what it read was, as node, operator and product; empty
 *     when it was not searched for
 * @param skipped whether the run goes on
 */
public record NonFinite(long step, String what, String where, boolean skipped) {}
