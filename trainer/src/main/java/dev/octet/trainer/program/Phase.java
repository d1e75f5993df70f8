package dev.octet.trainer.program;

/** When a step runs. One optimizer step: PREPARE once, FORWARD and BACKWARD for each micro-batch, UPDATE once. */
public enum Phase {
    /** After parameters changed: casts and quantises them once for all micro-batches. */
    PREPARE,
    /** From inputs to outputs and the loss. */
    FORWARD,
    /** From the loss to the gradients of parameters. */
    BACKWARD,
    /** From gradients to new parameters. */
    UPDATE
}
