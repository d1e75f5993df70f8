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

    /** The same with so many threads. */
    public StreamOptions withThreads(int count) {
        return new StreamOptions(count, force, progress);
    }

    /** The same, overwriting an existing model or not. */
    public StreamOptions withForce(boolean overwrite) {
        return new StreamOptions(threads, overwrite, progress);
    }

    /** The same, telling another listener. */
    public StreamOptions withProgress(ByteProgress listener) {
        return new StreamOptions(threads, force, listener);
    }
}
