package dev.octet.converter.checkpoint;

/** Hears how far a run is. Called from the threads that work, one call at a time. */
@FunctionalInterface
public interface ByteProgress {
    /**
     * @param done bytes of the source that have been dealt with
     * @param total all of them
     */
    void update(long done, long total);

    /** Hears nothing. */
    static ByteProgress silent() {
        return (_, _) -> {};
    }
}
