package dev.octet.trainer.program;

/** Where a value comes from and how long it lives. */
public enum ValueRole {
    /** Fed for each micro-batch; lives as long as the program's other memory, so it is fed before FORWARD and read in BACKWARD, too. */
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
    TEMPORARY;

    /** Whether such values live in a device's memory, shared by name with programs of other shapes. */
    public boolean isShared() {
        return switch (this) {
            case PARAMETER, STATE, GRADIENT, PREPARED -> true;
            case INPUT, CONSTANT, TEMPORARY -> false;
        };
    }
}
