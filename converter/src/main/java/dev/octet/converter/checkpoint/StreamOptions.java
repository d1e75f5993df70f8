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

    /** These options with another number of threads. */
    public StreamOptions withThreads(int newThreads) {
        return new StreamOptions(newThreads, force, progress);
    }

    /** These options, an existing model overwritten or not. */
    public StreamOptions withForce(boolean newForce) {
        return new StreamOptions(threads, newForce, progress);
    }

    /** These options with another receiver of the progress. */
    public StreamOptions withProgress(ByteProgress newProgress) {
        return new StreamOptions(threads, force, newProgress);
    }
}
