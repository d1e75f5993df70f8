package dev.octet.converter.runtime;

/** Receives the progress of a run after each batch, on the thread that called the run. An exception ends the run. */
@FunctionalInterface
public interface ProgressListener {
    /** Ignores the progress. */
    ProgressListener NONE = (done, total) -> {};

    /** {@code done} of {@code total} samples are processed. */
    void samples(int done, int total);

    /**
     * A piece begins, in a run that goes piece by piece; samples are counted anew for each piece.
     *
     * @param piece from 1
     */
    default void piece(int piece, int pieces) {
        // most listeners need only the samples
    }
}
