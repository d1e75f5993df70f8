package dev.octet.trainer.program;

/** Where a value comes from and how long it lives. */
public enum Role {
    /** Fed for each micro-batch. */
    INPUT,
    /** A trained or frozen weight; lives as long as the run. In F32 it is the master weight. */
    PARAMETER,
    /** A constant of the graph that is never trained. */
    CONSTANT,
    /** What recipes, optimizers and scalers remember from step to step: scales, amax histories, moments, loss scale, learning rate. */
    STATE,
    /** Gradient of a parameter, summed over micro-batches; zeroed when a step begins. */
    GRADIENT,
    /** Made in {@link Phase#PREPARE} and read until the next one: parameters cast or quantised once for all micro-batches. */
    PREPARED,
    /** Lives within one micro-batch, from the step that makes it to the last that reads it. */
    TEMPORARY
}
