package dev.octet.trainer.hook;

/**
 * What a step does.
 *
 * @param forward multiplications and additions of matrix products in forward, for a micro-batch
 * @param products those of forward and backward, what is computed again included
 * @param again those that are computed for the second time
 * @param bytes that all other operators read and write, for a micro-batch
 * @param update bytes that the update reads and writes, and what is cast once a step
 */
public record StepWork(long forward, long products, long again, long bytes, long update) {}
