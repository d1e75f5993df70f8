package dev.octet.converter.checkpoint;

/**
 * How a run goes about its work; none of it changes a byte of the result.
 *
 * @param threads threads that work at a time
 * @param force what is in the way is overwritten, unfinished work of an earlier run forgotten
 * @param progress hears how far it is
 */
public record StreamOptions(int threads, boolean force, ByteProgress progress) {
    /** All cores, nothing overwritten, silent. */
    public static StreamOptions defaults() {
        return new StreamOptions(Runtime.getRuntime().availableProcessors(), false, ByteProgress.silent());
    }
}
