package dev.octet.trainer.op.unary;

/** What a derivative is computed from, and so what is kept for backward. */
public enum SavedForBackward {
    /** The operand x. */
    INPUT,
    /** The result y. */
    OUTPUT,
    /** Neither: the derivative is the same everywhere. */
    NOTHING
}
