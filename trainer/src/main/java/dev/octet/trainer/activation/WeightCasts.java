package dev.octet.trainer.activation;

/** How long the casts and codes of weights that are computed again live. */
public enum WeightCasts {
    /** Through a step, made once for its micro-batches: where masters lie off the device, so that a cast in each pass would fetch them. */
    OF_A_STEP,
    /** Through the forward of their layer, and again through its backward. */
    OF_A_LAYER
}
