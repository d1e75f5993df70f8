package dev.octet.trainer.kernel;

import java.util.function.IntConsumer;

/** A pool of threads shared by kernels. */
public interface Parallel extends AutoCloseable {
    /** The thread that calls. */
    Parallel ALONE = new Parallel() {
        @Override
        public int threads() {
            return 1;
        }

        @Override
        public void pieces(int count, IntConsumer piece) {
            for (int i = 0; i < count; i++) {
                piece.accept(i);
            }
        }

        @Override
        public void close() {}
    };

    /** Body of {@link #ranges}: elements {@code from} (inclusive) to {@code to} (exclusive). */
    interface Range {
        /** Processes the elements from {@code from} (inclusive) to {@code to} (exclusive). */
        void accept(long from, long to);
    }

    /** Maximum number of working threads, including the caller's. */
    int threads();

    /**
     * Runs {@code piece} once for each number below {@code count}; returns when all are done. The assignment to threads is arbitrary.
     *
     * @throws RuntimeException the exception of the first piece that failed, after all have ended
     */
    void pieces(int count, IntConsumer piece);

    /**
     * Splits {@code 0 .. count} into ranges of {@code grain} elements (the last may be shorter), independently of the number of threads.
     */
    default void ranges(long count, long grain, Range body) {
        long pieces = Math.ceilDiv(count, grain);
        pieces(Math.toIntExact(pieces), i -> body.accept(i * grain, Math.min(count, (i + 1) * grain)));
    }

    /** Ends the threads. */
    @Override
    void close();
}
