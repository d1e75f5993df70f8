package dev.octet.trainer.replay;

/** What an examination came to. */
public enum Verdict {
    /** FP8 is as far from the reference as rounding to its formats takes it, and no farther. */
    HEALTHY,
    /** Loss or gradients jump in the reference as they do in FP8: a matter of data, optimizer and averaging, not of FP8. */
    SPIKE,
    /** Nothing is computed in FP8. */
    NO_FP8,
    /** The reference has numbers that are not finite: a matter of the model, its data or its learning rate. */
    REFERENCE_NOT_FINITE,
    /** FP8 is healthy as soon as a feature around the products is switched off. */
    FEATURE,
    /** Scales of earlier steps do not fit: current scaling cures. */
    STALE_SCALES,
    /** The values do not fit the format with the scales that the recipe gives them: only high precision cures. */
    RANGE,
    /** Codes and scales are good, the product of them is not: fake quantisation is healthy, FP8 is not. */
    PRODUCT,
    /** Many products together are too far off, none of them alone. */
    SPREAD,
    /** FP8 is at fault, and the budget was spent before it was known where. */
    UNFINISHED;

    /** Whether FP8, or what surrounds it, is at fault. */
    public boolean isFault() {
        return switch (this) {
            case FEATURE, STALE_SCALES, RANGE, PRODUCT, SPREAD, UNFINISHED -> true;
            case HEALTHY, SPIKE, NO_FP8, REFERENCE_NOT_FINITE -> false;
        };
    }
}
