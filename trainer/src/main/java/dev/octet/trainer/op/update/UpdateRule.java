package dev.octet.trainer.op.update;

/** Hyperparameters of an optimizer that only it has. */
public sealed interface UpdateRule permits AdafactorRule, LambRule, MuonRule {}
