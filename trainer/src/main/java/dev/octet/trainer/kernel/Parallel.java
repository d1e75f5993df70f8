package dev.octet.trainer.kernel;

import java.util.function.IntConsumer;

/** Threads that kernels share. */
public interface Parallel extends AutoCloseable {
    /** Body of {@link #ranges}: elements {@code from} (inclusive) to {@code to} (exclusive). */
    interface Range {
        /** Works on the elements from {@code from} to before {@code to}. */
        void accept(long from, long to);
    }

    /** How many threads work at most, the calling one included. */
    int threads();

    /**
     * Runs {@code piece} once for each number below {@code count}; returns when all are done. Which thread runs which piece is chance.
     *
     * @throws RuntimeException what the first failing piece threw, after all have ended
     */
    void pieces(int count, IntConsumer piece);

    /** Cuts {@code 0 .. count} into ranges of {@code grain} elements, the last one shorter; the cuts do not depend on the number of threads. */
    default void ranges(long count, long grain, Range body) {
        long pieces = Math.ceilDiv(count, grain);
        pieces(Math.toIntExact(pieces), i -> body.accept(i * grain, Math.min(count, (i + 1) * grain)));
    }

    /** Ends the threads. */
    @Override
    void close();
}
