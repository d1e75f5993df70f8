package dev.octet.trainer.rule;

/** Hyperparameters of an optimizer that only it has. */
public sealed interface UpdateRule permits AdafactorRule, AdagradRule, LambRule, MuonRule {}
