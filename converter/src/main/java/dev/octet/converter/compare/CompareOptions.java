package dev.octet.converter.compare;

import java.util.Optional;
import java.util.regex.Pattern;

/**
 * Options of a comparison.
 *
 * @param threads number of threads, at least 1; results do not depend on it
 * @param only compare pairs in which the name of either weight contains a match; empty for all
 * @param progress receives the number of compared elements and the total, never from two threads at once
 */
public record CompareOptions(int threads, Optional<Pattern> only, Progress progress) {
    /** Receives the progress of a comparison. */
    @FunctionalInterface
    public interface Progress {
        /** {@code done} of {@code total} elements are compared. */
        void elements(long done, long total);
    }

    public CompareOptions {
        if (threads < 1) {
            throw new IllegalArgumentException(threads + " threads");
        }
    }

    /** All weights, one thread for each core, no progress listener. */
    public static CompareOptions defaults() {
        return new CompareOptions(Runtime.getRuntime().availableProcessors(), Optional.empty(), (done, total) -> {});
    }

    /** A copy with this number of threads. */
    public CompareOptions withThreads(int newThreads) {
        return new CompareOptions(newThreads, only, progress);
    }

    /** A copy limited to pairs in which the name of either weight contains a match of {@code pattern}. */
    public CompareOptions withOnly(Pattern pattern) {
        return new CompareOptions(threads, Optional.of(pattern), progress);
    }

    /** A copy that reports to {@code listener}. */
    public CompareOptions withProgress(Progress listener) {
        return new CompareOptions(threads, only, listener);
    }
}
