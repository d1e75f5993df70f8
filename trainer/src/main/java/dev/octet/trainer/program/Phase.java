package dev.octet.trainer.program;

/** Phase of a step. One optimizer step runs PREPARE once, FORWARD and BACKWARD for each micro-batch, UPDATE once. */
public enum Phase {
    /** After parameter updates: casts and quantises parameters once for all micro-batches. */
    PREPARE,
    /** From inputs to outputs and the loss. */
    FORWARD,
    /** From the loss to the gradients of parameters. */
    BACKWARD,
    /** From gradients to new parameters. */
    UPDATE
}
