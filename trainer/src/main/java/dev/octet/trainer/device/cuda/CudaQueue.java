package dev.octet.trainer.device.cuda;

import dev.octet.trainer.device.Fetched;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.ref.WeakReference;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Work that was requested but not started. It starts when the host waits for a result; thus a whole training step, from zeroing the
 * gradients to the update, with the copies of its batch and learning rate, becomes one sequence. When a sequence occurs for the second
 * time, it is recorded as a graph, and from then on it is a single launch.
 *
 * <p>Small writes go through pinned memory assigned to their position in the sequence, so that the same sequence uses the same addresses in
 * every step. What is staged while a sequence runs lies in memory of its own: so steps that are fed that way take turns between two sequences.
 */
final class CudaQueue implements AutoCloseable {
    /** Minimum length of a sequence that is worth a graph. */
    private static final int LEAST_OF_GRAPH = 8;

    /** Number of cached graphs: several shapes, with and without measurements; as many more for each work of the host, which ends a sequence. */
    private static final int MOST_GRAPHS = 16;

    private final Gpu gpu;
    private final List<Work> waiting = new ArrayList<>();
    private final Map<Place, Slot> slots = new HashMap<>();
    private final Map<Place, Integer> used = new HashMap<>();
    /** The same of what is staged. */
    private final Map<Place, Integer> stagings = new HashMap<>();

    private final Map<Place, Staged> staged = new HashMap<>();
    /** Pinned memory that work reads which has not started, and which may still be running. */
    private final Set<Slot> queued = new HashSet<>();

    private final Set<Slot> running = new HashSet<>();
    /** What was fetched to slots and nobody has read. */
    private final Map<Slot, WeakReference<Fetching>> unread = new HashMap<>();

    private final Map<Sequence, Seen> sequences = new LinkedHashMap<>(16, 0.75f, true);
    /** Free pinned memory of forgotten copies, by size. */
    private final Map<Long, Deque<MemorySegment>> spare = new HashMap<>();

    /** Work of the host so far. */
    private final Set<Work> hosted = Collections.newSetFromMap(new IdentityHashMap<>());

    /** Number of sequences started. */
    private long started;

    /** Whether started work may still be running. */
    private boolean underWay;

    /** Identity of a copy: direction, address, size, and its number among equal copies of one sequence. */
    private record Place(boolean toDevice, long address, long bytes, int turn, boolean second) {
        Place(boolean toDevice, long address, long bytes) {
            this(toDevice, address, bytes, 0, false);
        }

        Place at(int number) {
            return new Place(toDevice, address, bytes, number, false);
        }

        /** The one that takes turns with it. */
        Place other() {
            return new Place(toDevice, address, bytes, turn, true);
        }
    }

    private record Slot(MemorySegment pinned, Work copy) {}

    /** @param from what lies in the slot */
    private record Staged(MemorySegment from, Slot slot) {}

    /** Works, compared by identity. */
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
        @SuppressWarnings("ReferenceEquality") // identity, not equality
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

    /** Queues work; that of the host is done now, behind what is queued. */
    void add(Work work) {
        if (work instanceof HostWork) {
            hosted.add(work);
            launch(); // numbers of copies go on: what was fetched may be read at the end of the step
            synchronize();
            work.run();
        } else {
            waiting.add(work);
        }
    }

    /** Queues a write to the device; {@code from} may be changed immediately. */
    void write(long to, MemorySegment from) {
        if (from.byteSize() == 0) {
            return;
        }
        Place place = next(used, new Place(true, to, from.byteSize()));
        Staged ready = staged.remove(place);
        if (ready != null && isSame(ready.from(), from)) {
            queued.add(ready.slot());
            waiting.add(ready.slot().copy());
            return;
        }
        Slot slot = slot(place);
        if (underWay) {
            synchronize(); // the previous step may still read it
        }
        slot.pinned().copyFrom(from);
        queued.add(slot);
        waiting.add(slot.copy());
    }

    /** Copies what will be written to the device next to pinned memory that no work reads; not where there is none. */
    void stage(long to, MemorySegment from) {
        if (from.byteSize() == 0) {
            return;
        }
        Place place = next(stagings, new Place(true, to, from.byteSize()));
        Slot slot = slot(place);
        if (isBusy(slot)) {
            slot = slot(place.other());
        }
        if (!isBusy(slot)) {
            slot.pinned().copyFrom(from);
            staged.put(place, new Staged(from, slot));
        }
    }

    private boolean isBusy(Slot slot) {
        return queued.contains(slot) || running.contains(slot);
    }

    /** Whether both are the same memory: what was freed may come to hold other bytes. */
    private static boolean isSame(MemorySegment staged, MemorySegment fed) {
        return staged.scope().isAlive() && staged.equals(fed);
    }

    /** Queues a copy of bytes from the device. */
    Fetched fetch(long from, long bytes) {
        if (bytes == 0) {
            return () -> MemorySegment.NULL;
        }
        Slot slot = slot(next(used, new Place(false, from, bytes)));
        keep(slot);
        Fetching fetched = new Fetching(slot);
        unread.put(slot, new WeakReference<>(fetched));
        waiting.add(slot.copy());
        return fetched;
    }

    /** Has what was fetched to a slot before, and is yet to be read, outlive the slot's next use. */
    private void keep(Slot slot) {
        WeakReference<Fetching> before = unread.remove(slot);
        Fetching fetched = before == null ? null : before.get();
        if (fetched != null) {
            fetched.keep();
        }
    }

    /** A copy from the device. Its slot serves the next one of the same place, also before this one is read. */
    private final class Fetching implements Fetched {
        private final Slot slot;
        private final long sequence = started;
        private @Nullable MemorySegment kept;

        Fetching(Slot slot) {
            this.slot = slot;
        }

        @Override
        public MemorySegment bytes() {
            MemorySegment own = kept;
            if (own != null) {
                return own;
            }
            unread.remove(slot);
            complete();
            return slot.pinned();
        }

        /** Takes the bytes out of the slot. */
        void keep() {
            complete();
            kept = Arena.ofAuto().allocate(slot.pinned().byteSize(), 8).copyFrom(slot.pinned());
        }

        private void complete() {
            if (started == sequence) {
                start();
            }
            if (underWay) {
                synchronize();
            }
        }
    }

    private static Place next(Map<Place, Integer> turns, Place first) {
        return first.at(turns.merge(first, 1, Integer::sum) - 1);
    }

    private Slot slot(Place place) {
        return slots.computeIfAbsent(place, p -> {
            MemorySegment pinned = pinned(p.bytes());
            return new Slot(pinned, p.toDevice() ? gpu.upload(pinned, p.address()) : gpu.download(p.address(), pinned));
        });
    }

    private MemorySegment pinned(long bytes) {
        Deque<MemorySegment> free = spare.get(bytes);
        return free == null || free.isEmpty() ? gpu.pinned(bytes) : free.pop();
    }

    /** Starts all queued work. */
    void start() {
        used.clear();
        stagings.clear();
        launch();
    }

    private void launch() {
        running.addAll(queued);
        queued.clear();
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
        while (sequences.size() > MOST_GRAPHS * (1 + hosted.size())) {
            Work graph = oldest.next().graph;
            if (graph != null) {
                gpu.synchronize();
                graph.close();
            }
            oldest.remove();
        }
    }

    /** Starts all queued work and waits for it. */
    void finish() {
        start();
        synchronize();
    }

    private void synchronize() {
        gpu.synchronize();
        underWay = false;
        running.clear();
    }

    /** Whether started work may still be running. */
    boolean isUnderWay() {
        return underWay;
    }

    /**
     * Waits for all work, then drops graphs that contain any of these works, and copies to and from the memory: both are about to be freed.
     *
     * @param from start address of the memory
     */
    void forget(Collection<Work> works, long from, long bytes) {
        finish();
        Set<Work> gone = Collections.newSetFromMap(new IdentityHashMap<>());
        gone.addAll(works);
        staged.clear();
        slots.entrySet().removeIf(e -> {
            long at = e.getKey().address();
            if (at < from || at >= from + bytes) {
                return false;
            }
            Slot slot = e.getValue();
            keep(slot);
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
        hosted.removeAll(gone);
        gone.forEach(Work::close);
    }

    /** Number of cached graphs. */
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
