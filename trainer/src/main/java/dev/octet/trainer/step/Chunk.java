package dev.octet.trainer.step;

import dev.octet.trainer.device.Executable;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * The part of a model that a rank computes together: all of it, or a chunk of a pipeline's stage. Each micro-batch that has gone forward and not yet backward has memory of its own.
 */
final class Chunk implements AutoCloseable {
    private final Program program;
    private final PersistentBuffers memory;
    private final int inFlight;
    private final List<Executable> all = new ArrayList<>();
    private final Deque<Executable> free = new ArrayDeque<>();
    private final Map<Integer, Executable> running = new TreeMap<>();
    private final @Nullable SharedScales forwardScales;
    private final @Nullable SharedScales backwardScales;

    /**
     * @param inFlight micro-batches that have gone forward and not backward, at most
     * @param forwardScales follow from micro-batches once they have gone forward; null where no scales do
     * @param backwardScales once they have gone backward
     */
    Chunk(
            Program program,
            PersistentBuffers memory,
            int inFlight,
            @Nullable SharedScales forwardScales,
            @Nullable SharedScales backwardScales) {
        this.program = program;
        this.memory = memory;
        this.inFlight = inFlight;
        this.forwardScales = forwardScales;
        this.backwardScales = backwardScales;
        free.add(load());
    }

    private Executable load() {
        Executable made = memory.load(program);
        all.add(made);
        return made;
    }

    Program program() {
        return program;
    }

    /** The one that prepares for all: what it makes then is shared. */
    Executable first() {
        return all.getFirst();
    }

    /** For a micro-batch that goes forward, until {@link #release}. */
    Executable begin(int microBatch) {
        Executable next = free.isEmpty() ? load() : free.remove();
        running.put(microBatch, next);
        return next;
    }

    /** That of a micro-batch that has begun. */
    Executable of(int microBatch) {
        Executable found = running.get(microBatch);
        if (found == null) {
            throw new IllegalStateException("micro-batch " + microBatch + " has not gone forward");
        }
        return found;
    }

    /** A micro-batch is through; its memory serves another. */
    void release(int microBatch) {
        free.addFirst(of(microBatch));
        running.remove(microBatch);
    }

    @Nullable
    SharedScales scales(boolean backward) {
        return backward ? backwardScales : forwardScales;
    }

    /** The value of a result that is read after forward; null where another rank has it. */
    @Nullable
    Value result(String name) {
        return program.outputs().get(name);
    }

    /** Bytes of inputs, constants and temporaries of all micro-batches in flight. */
    long bytes() {
        return Math.max(inFlight, all.size()) * first().bytes();
    }

    @Override
    public void close() {
        all.forEach(Executable::close);
        for (SharedScales scales : new @Nullable SharedScales[] {forwardScales, backwardScales}) {
            if (scales != null) {
                scales.close();
            }
        }
    }
}
