package dev.octet.trainer.step;

/**
 * A micro-batch's way through a part of the model, for what watches it.
 *
 * @param microBatch its number among those of all ranks in the step, from 0
 * @param part which of the parts that compute it one after another, from 0
 * @param begins whether it is the first one of this process in the step
 */
record ObservedPass(int microBatch, int part, boolean begins) {}
