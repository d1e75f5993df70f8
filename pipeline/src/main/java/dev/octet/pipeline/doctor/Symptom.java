package dev.octet.pipeline.doctor;

/** What a run suffers from, as far as its curve and that of a baseline show. Classes as in NVIDIA's procedure for debugging FP8 training. */
public enum Symptom {
    /** Nothing. */
    NONE("healthy", Fault.NONE),
    /** Class (a): a spike that the baseline has too, and both recover. */
    SHARED_SPIKE("spike in the baseline too", Fault.TRAINING),
    /** The baseline does not come back either. */
    SHARED_DIVERGENCE("the baseline diverges too", Fault.TRAINING),
    /** Class (b): a spike that the baseline does not have; the run recovers. */
    OWN_SPIKE("spike of the FP8 run alone", Fault.PRECISION),
    /** Class (b): the losses differ from the first steps on, which is software as a rule. */
    EARLY_MISMATCH("mismatch from the first steps", Fault.PRECISION),
    /** Class (b): the losses were equal for a while, which is the recipe as a rule. */
    LATE_DIVERGENCE("late divergence", Fault.PRECISION),
    /** Class (b): losses that are not finite, where those of the baseline are. */
    NOT_FINITE("not finite", Fault.PRECISION),
    /** Class (b) before the loss shows it: replays of the run are farther from the base type than rounding explains. */
    REPLAYS("gradients off, loss not yet", Fault.PRECISION),
    /** Class (c): losses are equal and scores of tasks are not. */
    DOWNSTREAM("equal loss, other scores", Fault.EXPORT);

    private final String text;
    private final Fault fault;

    /** Where to look. */
    public enum Fault {
        /** Nowhere. */
        NONE,
        /** At the data, the optimizer, the averaging of weights. */
        TRAINING,
        /** At number formats, scales, and the software that computes with them. */
        PRECISION,
        /** At what was exported, and how it was evaluated. */
        EXPORT
    }

    Symptom(String text, Fault fault) {
        this.text = text;
        this.fault = fault;
    }

    /** A few words. */
    public String text() {
        return text;
    }

    /** Where to look. */
    public Fault fault() {
        return fault;
    }
}
