package dev.octet.trainer.device;

import dev.octet.trainer.program.MemoryPlan;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.lang.foreign.MemorySegment;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * A device that has the name and the products of another and computes nothing: it says what programs need, and takes no memory for it. All that is read from it is zero. It plans as processors do, whose
 * programs need no room but for their values.
 */
public final class DryDevice implements Device {
    private final Device like;
    private final long limitBytes;

    /**
     * A device like another.
     *
     * @param like closed with it
     */
    public DryDevice(Device like) {
        this(like, Long.MAX_VALUE);
    }

    /**
     * A device like another that refuses what needs more.
     *
     * @param like closed with it
     * @param limitBytes that programs can take at most
     */
    public DryDevice(Device like, long limitBytes) {
        this.like = like;
        this.limitBytes = limitBytes;
    }

    @Override
    public long limitBytes() {
        return limitBytes;
    }

    @Override
    public String name() {
        return like.name();
    }

    @Override
    public String products() {
        return like.products();
    }

    @Override
    public boolean multipliesFp8() {
        return like.multipliesFp8();
    }

    @Override
    public Memory allocate(Collection<Value> lasting) {
        return allocate(lasting, Offload.NONE);
    }

    @Override
    public Memory allocate(Collection<Value> lasting, Offload offload) {
        return new Nowhere(offload);
    }

    @Override
    public Executable load(Program program, Memory memory) {
        if (memory instanceof Nowhere nowhere) {
            nowhere.admit(program);
        }
        return new Idle(program);
    }

    @Override
    public void close() {
        like.close();
    }

    /** Values that are counted and not kept. */
    private static final class Nowhere implements Memory {
        private final Offload offload;
        private final Map<String, Long> away = new HashMap<>();
        private final Set<String> admitted = new HashSet<>();

        Nowhere(Offload offload) {
            this.offload = offload;
        }

        void admit(Program program) {
            for (Offload.Place place : Offload.Place.values()) {
                if (place != Offload.Place.DEVICE) {
                    // what a program had before stays where it is
                    offload.valuesAt(place, program).stream()
                            .filter(v -> !admitted.contains(v.name()))
                            .forEach(v -> away.put(v.name(), v.type().byteSize()));
                }
            }
            program.lasting().forEach(v -> admitted.add(v.name()));
        }

        @Override
        public boolean keeps() {
            return false;
        }

        @Override
        public void write(Value value, MemorySegment bytes) {
            // nothing is kept
        }

        @Override
        public void read(Value value, MemorySegment bytes) {
            bytes.fill((byte) 0);
        }

        @Override
        public void zero(Value value) {
            // nothing is kept
        }

        @Override
        public long offloadedBytes() {
            return away.values().stream().mapToLong(b -> b).sum();
        }

        @Override
        public void close() {
            // nothing was taken
        }
    }

    /** A program that computes nothing. */
    private record Idle(Program program) implements Executable {
        @Override
        public long bytes() {
            return MemoryPlan.of(program).arenaBytes() + MemoryPlan.bytes(program, ValueRole.CONSTANT);
        }

        @Override
        public void feed(Value input, MemorySegment bytes) {
            // never read
        }

        @Override
        public void run(Phase phase) {
            // what is read afterwards is zero: a teacher's answers have the right shape
        }

        @Override
        public void read(Value value, MemorySegment bytes) {
            bytes.fill((byte) 0);
        }

        @Override
        public void observe(@Nullable StepObserver observer) {
            // there is nothing to observe
        }

        @Override
        public void close() {
            // nothing was taken
        }
    }
}
