package dev.octet.trainer.collective;

import dev.octet.formats.error.OctetException;
import dev.octet.formats.error.UnavailableException;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/** Where ranks that are threads leave messages for each other, one at a time for each pair, and learn that one has ended. */
final class ThreadBoard {
    private final int size;
    private final Duration deadline;
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition changed = lock.newCondition();
    private final @Nullable Letter[] letters;
    /** Messages that nobody waits for until they are taken. */
    private final Map<Box, Deque<MemorySegment>> boxes = new HashMap<>();

    private final boolean[] ended;
    private @Nullable Failure failure;

    /** @param data the sender's own memory, which stays as it is until the letter is taken */
    record Letter(Call call, MemorySegment data) {}

    /** Where the messages of a channel between two ranks lie. */
    record Box(int from, int to, int channel) {}

    private record Failure(int rank, Throwable cause) {
        String what() {
            return cause instanceof OctetException e ? e.what() : String.valueOf(cause.getMessage());
        }
    }

    ThreadBoard(int size, Duration deadline) {
        this.size = size;
        this.deadline = deadline;
        this.letters = new Letter[size * size];
        this.ended = new boolean[size];
    }

    int size() {
        return size;
    }

    Duration deadline() {
        return deadline;
    }

    /** Leaves a letter; the one before has been taken. */
    void post(int from, int to, Letter letter) {
        lock.lock();
        try {
            letters[from * size + to] = letter;
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    /** Leaves a message behind those before it. */
    void post(Box box, MemorySegment message) {
        lock.lock();
        try {
            boxes.computeIfAbsent(box, _ -> new ArrayDeque<>()).add(message);
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    /** Waits for the next message and takes it; returns null when none came before the deadline. */
    @Nullable
    MemorySegment await(Box box) {
        lock.lock();
        try {
            Deque<MemorySegment> messages = boxes.computeIfAbsent(box, _ -> new ArrayDeque<>());
            return await(() -> !messages.isEmpty(), box.from, box.to, Call.MESSAGE) ? messages.remove() : null;
        } finally {
            lock.unlock();
        }
    }

    /** Waits for a letter, which stays until {@link #taken}; returns null when none came before the deadline. */
    @Nullable
    Letter await(int from, int to, Call call) {
        int at = from * size + to;
        lock.lock();
        try {
            return await(() -> letters[at] != null, from, to, call) ? letters[at] : null;
        } finally {
            lock.unlock();
        }
    }

    void taken(int from, int to) {
        lock.lock();
        try {
            letters[from * size + to] = null;
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    /** Waits until a letter was taken; returns false at the deadline. */
    boolean awaitTaken(int from, int to, Call call) {
        int at = from * size + to;
        lock.lock();
        try {
            return await(() -> letters[at] == null, to, from, call);
        } finally {
            lock.unlock();
        }
    }

    private boolean await(BooleanSupplier there, int other, int own, Call call) {
        long nanos = deadline.toNanos();
        try {
            while (!there.getAsBoolean()) {
                Failure known = failure;
                if (known != null) {
                    throw lost(known, own, call);
                }
                if (ended[other]) {
                    throw new UnavailableException(
                            "rank " + other + " of " + size + " has ended, and rank " + own + " waits for it",
                            "ranks of the run, in " + call.text(),
                            "let all ranks make the same calls");
                }
                if (nanos <= 0) {
                    return false;
                }
                nanos = changed.awaitNanos(nanos);
            }
            return true;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new UnavailableException(
                    "rank " + own + " of " + size + " was interrupted",
                    "ranks of the run, in " + call.text(),
                    "run it again",
                    e);
        }
    }

    private UnavailableException lost(Failure known, int own, Call call) {
        return new UnavailableException(
                "rank " + known.rank + " of " + size + " failed, and rank " + own + " ends with it: " + known.what(),
                "ranks of the run, in " + call.text(),
                "see what rank " + known.rank + " says",
                known.cause);
    }

    /** A rank fails: those that wait, or will, end with its name. The first is kept. */
    void fail(int rank, Throwable cause) {
        lock.lock();
        try {
            if (failure == null) {
                failure = new Failure(rank, cause);
            }
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    /** A rank has done its work. */
    void end(int rank) {
        lock.lock();
        try {
            ended[rank] = true;
            changed.signalAll();
        } finally {
            lock.unlock();
        }
    }

    /** @throws UnavailableException when a rank failed */
    void requireGood() {
        lock.lock();
        try {
            Failure known = failure;
            if (known != null) {
                throw new UnavailableException(
                        "rank " + known.rank + " of " + size + " failed: " + known.what(),
                        "ranks of the run, threads of this process",
                        "mend what it says; the other ranks ended with it",
                        known.cause);
            }
        } finally {
            lock.unlock();
        }
    }
}
