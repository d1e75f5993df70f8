package dev.octet.converter.checkpoint;

/** Receives the progress of a run. The worker threads call it, never concurrently. */
@FunctionalInterface
public interface ByteProgress {
    /**
     * @param done bytes of the source processed so far
     * @param total bytes of the source
     */
    void update(long done, long total);

    /** Ignores the progress. */
    static ByteProgress silent() {
        return (_, _) -> {};
    }
}
