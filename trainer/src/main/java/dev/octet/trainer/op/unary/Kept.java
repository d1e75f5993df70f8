package dev.octet.trainer.op.unary;

/** What a derivative is computed from, and so what is kept for backward. */
public enum Kept {
    /** The operand x. */
    INPUT,
    /** The result y. */
    OUTPUT,
    /** Neither: the derivative is the same everywhere. */
    NOTHING
}
