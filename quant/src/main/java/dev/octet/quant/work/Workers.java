package dev.octet.quant.work;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.IntConsumer;

/** Independent pieces of work, numbered from 0, shared out among threads. */
public final class Workers {
    private Workers() {}

    /**
     * Runs {@code piece} once for each number below {@code count}, in up to {@code threads} threads that live as long as the call; with one
     * thread or piece in the calling thread. Which thread does which piece is chance: what a piece does must not depend on it.
     *
     * @throws RuntimeException what the first failing piece threw, after all have ended
     * @throws IllegalStateException when the calling thread is interrupted
     */
    public static void run(int count, int threads, IntConsumer piece) {
        AtomicInteger next = new AtomicInteger();
        Runnable worker = () -> {
            for (int i = next.getAndIncrement(); i < count; i = next.getAndIncrement()) {
                piece.accept(i);
            }
        };
        int workers = Math.min(threads, count);
        if (workers <= 1) {
            worker.run();
            return;
        }
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
