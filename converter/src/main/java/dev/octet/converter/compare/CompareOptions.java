package dev.octet.converter.compare;

import java.util.Optional;
import java.util.regex.Pattern;

/**
 * How to compare.
 *
 * @param threads threads to use, at least 1; results do not depend on it
 * @param only names of weights of either model to look at; empty for all
 * @param progress receives the number of elements done and in all, never from two threads at once
 */
public record CompareOptions(int threads, Optional<Pattern> only, Progress progress) {
    /** Receives how far a comparison is. */
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

    /** All weights, one thread for each core, progress not reported. */
    public static CompareOptions defaults() {
        return new CompareOptions(Runtime.getRuntime().availableProcessors(), Optional.empty(), (done, total) -> {});
    }

    /** The same with another number of threads. */
    public CompareOptions withThreads(int newThreads) {
        return new CompareOptions(newThreads, only, progress);
    }

    /** The same for weights whose name has a part that {@code pattern} matches. */
    public CompareOptions withOnly(Pattern pattern) {
        return new CompareOptions(threads, Optional.of(pattern), progress);
    }

    /** The same, telling {@code listener}. */
    public CompareOptions withProgress(Progress listener) {
        return new CompareOptions(threads, only, listener);
    }
}
