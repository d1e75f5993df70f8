package dev.octet.trainer.device.cuda;

import dev.octet.trainer.device.Fetched;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Deque;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * What a device has been asked to do and has not started. It starts when somebody waits for a result; so a whole training step, from the
 * zeroing of gradients to the update, with the copies of its batch and of its learning rate, becomes one sequence. A sequence that comes for the
 * second time is made a graph, and from then on is one launch.
 *
 * <p>Small writes go through pinned memory that belongs to their place in the sequence, so that the same sequence reads the same addresses at
 * every step.
 */
final class CudaQueue implements AutoCloseable {
    /** Sequences shorter than this are not worth a graph. */
    private static final int LEAST_OF_GRAPH = 8;

    /** Graphs that are kept: shapes in turn, with and without measurements. */
    private static final int MOST_GRAPHS = 16;

    private final Gpu gpu;
    private final List<Work> waiting = new ArrayList<>();
    private final Map<Place, Slot> slots = new HashMap<>();
    private final Map<Place, Integer> used = new HashMap<>();
    private final Map<Sequence, Seen> sequences = new LinkedHashMap<>(16, 0.75f, true);
    /** Pinned memory of copies that are gone, by size. */
    private final Map<Long, Deque<MemorySegment>> spare = new HashMap<>();

    /** Sequences started so far. */
    private long started;

    /** Whether some of them may still run. */
    private boolean underWay;

    /** A copy between pinned memory and an address, and how often it came before in one sequence. */
    private record Place(boolean toDevice, long address, long bytes, int turn) {}

    private record Slot(MemorySegment pinned, Work copy) {}

    /** Works by identity. */
    private record Sequence(List<Work> works, int hash) {
        static Sequence of(List<Work> works) {
            int hash = 1;
            for (Work w : works) {
                hash = 31 * hash + System.identityHashCode(w);
            }
            return new Sequence(List.copyOf(works), hash);
        }

        @Override
        public int hashCode() {
            return hash;
        }

        @Override
        @SuppressWarnings("ReferenceEquality") // the same work, not the like of it
        public boolean equals(@Nullable Object other) {
            if (!(other instanceof Sequence o) || o.works.size() != works.size()) {
                return false;
            }
            for (int i = 0; i < works.size(); i++) {
                if (works.get(i) != o.works.get(i)) {
                    return false;
                }
            }
            return true;
        }
    }

    private static final class Seen {
        @Nullable
        Work graph;
    }

    CudaQueue(Gpu gpu) {
        this.gpu = gpu;
    }

    /** Puts work behind what waits. */
    void add(Work work) {
        waiting.add(work);
    }

    /** Writes to the device behind what waits; {@code from} may be changed at once. */
    void write(long to, MemorySegment from) {
        if (from.byteSize() == 0) {
            return;
        }
        Slot slot = slot(true, to, from.byteSize());
        if (underWay) {
            synchronize(); // the last step may still read it
        }
        slot.pinned().copyFrom(from);
        waiting.add(slot.copy());
    }

    /** Has bytes copied behind what waits. */
    Fetched fetch(long from, long bytes) {
        if (bytes == 0) {
            return () -> MemorySegment.NULL;
        }
        Slot slot = slot(false, from, bytes);
        waiting.add(slot.copy());
        long sequence = started;
        return () -> {
            if (started == sequence) {
                start();
            }
            if (underWay) {
                synchronize();
            }
            return slot.pinned();
        };
    }

    private Slot slot(boolean toDevice, long address, long bytes) {
        int turn = used.merge(new Place(toDevice, address, bytes, 0), 1, Integer::sum) - 1;
        return slots.computeIfAbsent(new Place(toDevice, address, bytes, turn), _ -> {
            MemorySegment pinned = pinned(bytes);
            return new Slot(pinned, toDevice ? gpu.upload(pinned, address) : gpu.download(address, pinned));
        });
    }

    private MemorySegment pinned(long bytes) {
        Deque<MemorySegment> free = spare.get(bytes);
        return free == null || free.isEmpty() ? gpu.pinned(bytes) : free.pop();
    }

    /** Starts what waits. */
    void start() {
        used.clear();
        if (waiting.isEmpty()) {
            return;
        }
        started++;
        underWay = true;
        if (waiting.size() < LEAST_OF_GRAPH) {
            waiting.forEach(Work::run);
            waiting.clear();
            return;
        }
        Sequence sequence = Sequence.of(waiting);
        waiting.clear();
        Seen seen = sequences.get(sequence);
        if (seen == null) {
            sequences.put(sequence, new Seen());
            forgetOldest();
            sequence.works().forEach(Work::run);
            return;
        }
        Work graph = seen.graph;
        if (graph == null) {
            graph = gpu.graph(sequence.works());
            seen.graph = graph;
        }
        graph.run();
    }

    private void forgetOldest() {
        Iterator<Seen> oldest = sequences.values().iterator();
        while (sequences.size() > MOST_GRAPHS) {
            Work graph = oldest.next().graph;
            if (graph != null) {
                gpu.synchronize();
                graph.close();
            }
            oldest.remove();
        }
    }

    /** Starts what waits and waits for it. */
    void finish() {
        start();
        synchronize();
    }

    private void synchronize() {
        gpu.synchronize();
        underWay = false;
    }

    /**
     * Waits for all work, then forgets graphs with any of these in them, and copies to and from the memory: both are about to be freed.
     *
     * @param from first address of the memory
     */
    void forget(Collection<Work> works, long from, long bytes) {
        finish();
        Set<Work> gone = Collections.newSetFromMap(new IdentityHashMap<>());
        gone.addAll(works);
        slots.entrySet().removeIf(e -> {
            long at = e.getKey().address();
            if (at < from || at >= from + bytes) {
                return false;
            }
            Slot slot = e.getValue();
            gone.add(slot.copy());
            spare.computeIfAbsent(slot.pinned().byteSize(), _ -> new ArrayDeque<>())
                    .push(slot.pinned());
            return true;
        });
        sequences.entrySet().removeIf(e -> {
            boolean dead = e.getKey().works().stream().anyMatch(gone::contains);
            Work graph = e.getValue().graph;
            if (dead && graph != null) {
                graph.close();
            }
            return dead;
        });
        gone.forEach(Work::close);
    }

    /** Graphs made so far that are kept. */
    int graphs() {
        return (int) sequences.values().stream().filter(s -> s.graph != null).count();
    }

    @Override
    public void close() {
        waiting.clear();
        gpu.synchronize();
        for (Seen seen : sequences.values()) {
            if (seen.graph != null) {
                seen.graph.close();
            }
        }
        sequences.clear();
        slots.values().forEach(s -> s.copy().close());
        slots.clear();
    }
}
