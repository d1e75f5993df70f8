package dev.octet.converter.runtime;

/** Told how far a run is, on the thread that called it, after each batch. What it throws ends the run. */
@FunctionalInterface
public interface ProgressListener {
    /** Nobody listens. */
    ProgressListener NONE = (done, total) -> {};

    /** {@code done} of {@code total} samples are in. */
    void samples(int done, int total);

    /**
     * A piece of a model begins that runs piece by piece; samples are then counted anew for each.
     *
     * @param piece from 1
     */
    default void piece(int piece, int pieces) {
        // most want no more than the samples
    }
}
