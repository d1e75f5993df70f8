package dev.octet.quant;

import dev.octet.quant.work.Workers;

/**
 * Work on ranges of elements, shared out among threads. Where the ranges end depends on the number of elements only, never on the
 * number of threads, so results that follow from one range each are the same on any number.
 */
final class Stripes {
    /**
     * Elements of a stripe: large enough that starting one costs nothing, small enough that two threads finish together. Even, so that
     * no byte of packed nibbles belongs to two stripes.
     */
    static final long STRIPE = 1L << 20;

    /** Works on elements {@code from .. to - 1}. */
    interface Body {
        void run(long from, long to);
    }

    private Stripes() {}

    /** Number of stripes in {@code count} elements. */
    static long count(long count) {
        return Math.ceilDiv(count, STRIPE);
    }

    /** Runs {@code body} once on each stripe; returns when all are done, throws what the first failing one threw. */
    static void run(long elements, int threads, Body body) {
        int stripes = Math.toIntExact(count(elements));
        Workers.run(stripes, threads, s -> body.run(s * STRIPE, Math.min(elements, (s + 1) * STRIPE)));
    }
}
