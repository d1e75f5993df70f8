package dev.octet.trainer.hook;

/**
 * What a step does.
 *
 * @param forward multiplications and additions of matrix products in forward, for a micro-batch
 * @param products those of forward and backward, what is computed again included
 * @param again those that are computed for the second time
 * @param bytes that all other operators read and write, for a micro-batch
 * @param update bytes that the update reads and writes, and what is cast once a step
 * @param casts elements that become codes of FP8 or are made of them, for a micro-batch
 * @param updateCasts those of the update, and of what is cast once a step
 * @param decodedBytes operands of FP8 products that a processor has in floats at a time
 */
public record StepWork(
        long forward,
        long products,
        long again,
        long bytes,
        long update,
        long casts,
        long updateCasts,
        long decodedBytes) {}
