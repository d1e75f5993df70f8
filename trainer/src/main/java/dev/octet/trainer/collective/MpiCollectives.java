package dev.octet.trainer.collective;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;

/**
 * Ranks that are processes, joined by an installed MPI library. Only messages between two ranks are used, none of MPI's own collectives: their order of summation is not
 * ours, and while they wait nobody knows for whom.
 */
final class MpiCollectives extends OrderedCollectives {
    /** How often to ask without giving the processor away; MPI makes progress only when it is asked. */
    private static final int SPINS = 1000;

    /** How long to sleep between two questions after that: others may need the processor to come. */
    private static final long NAP_NANOS = 20_000;

    /**
     * How long a rank that failed waits before it ends the others. What it printed lies in a pipe that the launcher reads; MPI_Abort ends the launcher as well, and both
     * Open MPI's and MPICH's then drop what they have not read.
     */
    private static final long LAST_WORDS_NANOS = 1_000_000_000;

    /** Tags of messages in channels begin behind those of calls. */
    private static final int FIRST_CHANNEL = 16;

    /** Largest part of a message that is posted at once; MPI counts bytes in 32 bits. */
    private static final long POSTED_BYTES = 1 << 28;

    private final Mpi mpi;
    private final int rank;
    private final int size;
    private final String engine;
    private final Duration deadline;
    private final Arena arena = Arena.ofShared();
    private final MemorySegment requests;
    private final MemorySegment flag;
    /** Messages that no rank may have received yet, in their order. */
    private final List<Posted> posted = new ArrayList<>();

    private volatile int abandoned;
    private volatile boolean left;

    /**
     * A message on its way.
     *
     * @param room of its copy and its request
     */
    private record Posted(Arena room, MemorySegment request) {}

    MpiCollectives(Mpi mpi, Duration deadline) {
        this.mpi = mpi;
        this.deadline = deadline;
        this.rank = mpi.rank();
        this.size = mpi.size();
        this.engine = mpi.version();
        this.requests = arena.allocate((2L * size + 1) * mpi.requestBytes(), Long.BYTES);
        this.flag = arena.allocate(ValueLayout.JAVA_INT);
        Runtime.getRuntime().addShutdownHook(new Thread(this::abort, "octet-rank-abort"));
    }

    @Override
    public int rank() {
        return rank;
    }

    @Override
    public int size() {
        return size;
    }

    @Override
    public String engine() {
        return engine;
    }

    @Override
    void exchange(Call call, MemorySegment[] out, MemorySegment[] in) {
        int tag = call.tag();
        List<Integer> open = new ArrayList<>();
        for (int r = 0; r < in.length; r++) {
            if (r != rank && in[r].byteSize() > 0) {
                mpi.receive(in[r], r, tag, request(r));
                open.add(r);
            }
        }
        for (int r = 0; r < out.length; r++) {
            if (r != rank && out[r].byteSize() > 0) {
                mpi.send(out[r], r, tag, request(size + r));
                open.add(size + r);
            }
        }
        in[rank].copyFrom(out[rank]);
        await(call, open);
    }

    @Override
    void leave(MemorySegment data, int to, int channel) {
        forgetReceived();
        for (long at = 0; at < data.byteSize(); at += POSTED_BYTES) {
            MemorySegment part = data.asSlice(at, Math.min(POSTED_BYTES, data.byteSize() - at));
            Arena room = Arena.ofConfined();
            MemorySegment request = room.allocate(mpi.requestBytes(), Long.BYTES);
            MemorySegment copy = room.allocate(part.byteSize(), 64).copyFrom(part);
            mpi.send(copy, to, FIRST_CHANNEL + channel, request);
            posted.add(new Posted(room, request));
        }
    }

    @Override
    void collect(MemorySegment data, int from, int channel) {
        int number = 2 * size;
        for (long at = 0; at < data.byteSize(); at += POSTED_BYTES) {
            MemorySegment part = data.asSlice(at, Math.min(POSTED_BYTES, data.byteSize() - at));
            try (Arena room = Arena.ofConfined()) {
                // memory of the heap may move meanwhile
                MemorySegment to = part.isNative() ? part : room.allocate(part.byteSize(), 64);
                mpi.receive(to, from, FIRST_CHANNEL + channel, request(number));
                await(Call.MESSAGE, () -> "rank " + from, () -> mpi.isDone(request(number), flag));
                if (!part.isNative()) {
                    part.copyFrom(to);
                }
            }
        }
    }

    /** Asks for the messages on their way, which makes them go on, and frees those that have arrived: from the first to one that has not. */
    private void forgetReceived() {
        while (!posted.isEmpty() && mpi.isDone(posted.getFirst().request, flag)) {
            posted.removeFirst().room.close();
        }
    }

    private MemorySegment request(int number) {
        return requests.asSlice(number * mpi.requestBytes(), mpi.requestBytes());
    }

    private void await(Call call, List<Integer> open) {
        await(call, () -> "rank " + open.getFirst() % size, () -> {
            open.removeIf(number -> mpi.isDone(request(number), flag));
            return open.isEmpty();
        });
    }

    /** @param others whom it waits for */
    private void await(Call call, Supplier<String> others, BooleanSupplier there) {
        long start = System.nanoTime();
        for (long asked = 0; !there.getAsBoolean(); asked++) {
            if (asked < SPINS) {
                Thread.onSpinWait();
            } else {
                if (System.nanoTime() - start > deadline.toNanos()) {
                    throw late(deadline, others.get(), call);
                }
                LockSupport.parkNanos(NAP_NANOS);
            }
        }
    }

    @Override
    public void abandon(int exitCode) {
        abandoned = Math.max(1, exitCode);
    }

    /** Ends the others when the JVM ends, by when this rank has said why. */
    private void abort() {
        if (abandoned != 0 && !left) {
            long said = System.nanoTime();
            while (System.nanoTime() - said < LAST_WORDS_NANOS) {
                LockSupport.parkNanos(LAST_WORDS_NANOS);
            }
            mpi.abort(abandoned);
        }
    }

    @Override
    public void close() {
        if (abandoned == 0 && !left) {
            left = true;
            await(Call.MESSAGE, () -> "ranks that it has sent something to", () -> {
                forgetReceived();
                return posted.isEmpty();
            });
            mpi.end();
        }
    }
}
