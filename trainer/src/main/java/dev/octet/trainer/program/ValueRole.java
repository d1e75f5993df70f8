package dev.octet.trainer.program;

/** Origin and lifetime of a value. */
public enum ValueRole {
    /** Fed for each micro-batch; keeps its memory as long as the program: it is fed before FORWARD and may still be read in BACKWARD. */
    INPUT,
    /** A trained or frozen weight; lives as long as the run. In F32 it is the master weight. */
    PARAMETER,
    /** Bytes of a frozen weight as they lie in its file, used in place where the device can; lives as long as the run. */
    STORED,
    /** A constant of the graph that is never trained. */
    CONSTANT,
    /** State of recipes, optimizers and scalers from step to step: scales, amax histories, moments, loss scale, learning rate. */
    STATE,
    /** Gradient of a parameter, summed over micro-batches; zeroed at the start of a step, or overwritten by its first micro-batch. */
    GRADIENT,
    /** Computed in {@link Phase#PREPARE} and valid until the next one: parameters cast or quantised once for all micro-batches. */
    PREPARED,
    /** Lives within one micro-batch, from the step that computes it to the last that reads it. */
    TEMPORARY,
    /** A copy of a temporary value in memory of the host, while it is not on the device; lives within one micro-batch. */
    HOSTED;

    /** Whether values with this role are in the device memory that programs for other shapes share by name. */
    public boolean isShared() {
        return switch (this) {
            case PARAMETER, STORED, STATE, GRADIENT, PREPARED -> true;
            case INPUT, CONSTANT, TEMPORARY, HOSTED -> false;
        };
    }

    /** Whether values with this role are in the arena of a micro-batch ({@link MemoryPlan}). */
    public boolean isInArena() {
        return this == TEMPORARY || this == INPUT;
    }
}
