package dev.octet.trainer.rule;

/**
 * What only Adagrad has.
 *
 * @param lrDecay the learning rate is divided by 1 + lrDecay for each step before
 */
public record AdagradRule(double lrDecay) implements UpdateRule {}
