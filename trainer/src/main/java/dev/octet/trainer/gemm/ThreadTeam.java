package dev.octet.trainer.gemm;

import dev.octet.trainer.kernel.Parallel;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.function.IntConsumer;
import org.jspecify.annotations.Nullable;

/**
 * A fixed number of threads that live as long as the team. Between calls they spin briefly before they sleep: a training step is a thousand
 * calls a few microseconds apart, and waking a sleeping thread takes longer than many of these calls.
 *
 * <p>The calling thread takes part. Nested calls, and calls while another thread uses the team, run on the calling thread alone.
 */
public final class ThreadTeam implements Parallel {
    /** How long an idle thread polls for work before it sleeps. */
    private static final long SPIN_NANOS = 100_000;

    /** Polls between two readings of the clock. */
    private static final int LOOKS = 64;

    private final int threads;
    private final long spinNanos;
    private final List<Member> members = new ArrayList<>();
    private final AtomicBoolean busy = new AtomicBoolean();
    private volatile @Nullable Job job;
    /** Stack size: oneDNN's kernels need more than half a megabyte, more than {@code -Xss} may give by default. */
    private static final long STACK_BYTES = 8L << 20;

    private volatile boolean closed;

    /**
     * Starts the threads.
     *
     * @param threads number of working threads including the caller's, at least 1
     */
    public ThreadTeam(int threads) {
        if (threads < 1) {
            throw new IllegalArgumentException(threads + " threads, expected at least 1");
        }
        this.threads = threads;
        // more threads than processors: spinning would take time from the working threads
        this.spinNanos = threads <= Runtime.getRuntime().availableProcessors() ? SPIN_NANOS : 0;
        for (int i = 1; i < threads; i++) {
            Member member = new Member("octet-team-" + i);
            member.setDaemon(true);
            members.add(member);
            member.start();
        }
    }

    @Override
    public int threads() {
        return threads;
    }

    @Override
    public void pieces(int count, IntConsumer piece) {
        if (closed) {
            throw new IllegalStateException("the thread team is closed");
        }
        if (count <= 1 || threads == 1 || !busy.compareAndSet(false, true)) {
            alone(count, piece);
            return;
        }
        Job mine = new Job(count, piece, Thread.currentThread());
        try {
            job = mine;
            // wake only as many as there are pieces for
            for (int i = 0; i < Math.min(members.size(), count - 1); i++) {
                members.get(i).wake();
            }
            mine.work();
            mine.await(spinNanos);
        } finally {
            job = null;
            busy.set(false);
        }
        mine.rethrow();
    }

    private static void alone(int count, IntConsumer piece) {
        Job mine = new Job(count, piece, Thread.currentThread());
        mine.work();
        mine.rethrow();
    }

    /** Ends the threads, after running calls have completed. */
    @Override
    public void close() {
        closed = true;
        members.forEach(LockSupport::unpark);
    }

    /** One call of {@link #pieces}. */
    private static final class Job {
        private final int count;
        private final IntConsumer piece;
        private final Thread caller;
        private final AtomicInteger next = new AtomicInteger();
        private final AtomicInteger ended = new AtomicInteger();
        private volatile boolean callerSleeps;
        private int failedPiece = Integer.MAX_VALUE;
        private @Nullable Throwable failure;

        Job(int count, IntConsumer piece, Thread caller) {
            this.count = count;
            this.piece = piece;
            this.caller = caller;
        }

        boolean hasWork() {
            return next.get() < count;
        }

        /** Takes pieces until none are left. */
        void work() {
            for (int i = next.getAndIncrement(); i < count; i = next.getAndIncrement()) {
                try {
                    piece.accept(i);
                } catch (RuntimeException | Error e) {
                    note(i, e);
                }
                if (ended.incrementAndGet() == count && callerSleeps) {
                    LockSupport.unpark(caller);
                }
            }
        }

        private synchronized void note(int i, Throwable e) {
            if (i < failedPiece) {
                failedPiece = i;
                failure = e;
            }
        }

        void await(long spinNanos) {
            long end = System.nanoTime() + spinNanos;
            for (int look = 0; ended.get() < count; look++) {
                if (look % LOOKS != LOOKS - 1 || System.nanoTime() < end) {
                    Thread.onSpinWait();
                    continue;
                }
                callerSleeps = true;
                if (ended.get() < count) {
                    LockSupport.park(this);
                }
            }
        }

        synchronized void rethrow() {
            if (failure instanceof RuntimeException e) {
                throw e;
            }
            if (failure instanceof Error e) {
                throw e;
            }
        }
    }

    /** A thread of the team, other than the caller's. */
    private final class Member extends Thread {
        private volatile boolean sleeps;

        Member(String name) {
            super(null, null, name, STACK_BYTES);
        }

        void wake() {
            if (sleeps) {
                LockSupport.unpark(this);
            }
        }

        @Override
        public void run() {
            Job current = next();
            while (current != null) {
                current.work();
                current = next();
            }
        }

        /** The next job with pieces left; null when the team is closed. */
        private @Nullable Job next() {
            long end = System.nanoTime() + spinNanos;
            for (int look = 0; !closed; look++) {
                Job found = job;
                if (found != null && found.hasWork()) {
                    return found;
                }
                if (look % LOOKS != LOOKS - 1 || System.nanoTime() < end) {
                    Thread.onSpinWait();
                    continue;
                }
                sleeps = true;
                found = job;
                if (!closed && (found == null || !found.hasWork())) {
                    LockSupport.park(this);
                }
                sleeps = false;
                end = System.nanoTime() + spinNanos;
            }
            return null;
        }
    }
}
