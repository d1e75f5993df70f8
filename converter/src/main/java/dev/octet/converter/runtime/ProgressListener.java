package dev.octet.converter.runtime;

/** Told how far a run is, on the thread that called it, after each batch. What it throws ends the run. */
@FunctionalInterface
public interface ProgressListener {
    /** Nobody listens. */
    ProgressListener NONE = (done, total) -> {};

    /** {@code done} of {@code total} samples are in. */
    void samples(int done, int total);
}
