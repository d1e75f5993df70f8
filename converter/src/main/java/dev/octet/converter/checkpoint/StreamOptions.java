package dev.octet.converter.checkpoint;

/**
 * Options of a run that do not change a byte of the result.
 *
 * @param threads number of worker threads
 * @param force overwrite an existing model, discard the unfinished work of an earlier run
 * @param progress receives the progress
 */
public record StreamOptions(int threads, boolean force, ByteProgress progress) {
    /** All cores, nothing overwritten, silent. */
    public static StreamOptions defaults() {
        return new StreamOptions(Runtime.getRuntime().availableProcessors(), false, ByteProgress.silent());
    }
}
