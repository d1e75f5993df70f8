package dev.octet.trainer.op.loss;

/** What becomes of the losses of single positions. */
public enum Reduction {
    /** They are the output. */
    NONE,
    /** Their sum, divided by the weights of the labels that count: 0 / 0, which is NaN, when none does (as torch has it). */
    MEAN,
    /** Their sum. */
    SUM
}
