package dev.octet.quant;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;

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
        long stripes = count(elements);
        int workers = (int) Math.min(threads, stripes);
        AtomicLong next = new AtomicLong();
        Runnable worker = () -> {
            for (long s = next.getAndIncrement(); s < stripes; s = next.getAndIncrement()) {
                body.run(s * STRIPE, Math.min(elements, (s + 1) * STRIPE));
            }
        };
        if (workers <= 1) {
            worker.run();
        } else {
            runOn(workers, worker);
        }
    }

    private static void runOn(int workers, Runnable worker) {
        try (ExecutorService pool = Executors.newFixedThreadPool(workers)) {
            List<Future<?>> futures = new ArrayList<>();
            for (int i = 0; i < workers; i++) {
                futures.add(pool.submit(worker));
            }
            for (Future<?> future : futures) {
                future.get();
            }
        } catch (ExecutionException e) {
            if (e.getCause() instanceof RuntimeException failure) {
                throw failure;
            }
            if (e.getCause() instanceof Error failure) {
                throw failure;
            }
            throw new IllegalStateException(e.getCause()); // a Runnable throws nothing checked
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while quantising", e);
        }
    }
}
