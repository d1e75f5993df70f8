package dev.octet.trainer.device.cpu;

import dev.octet.formats.error.UnavailableException;
import dev.octet.trainer.device.Memory;
import dev.octet.trainer.device.Offload;
import dev.octet.trainer.device.Offload.Place;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.program.MemoryPlan;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** Persistent values outside the Java heap, by name. */
final class CpuMemory implements Memory {
    private record Held(OperandType type, MemorySegment bytes) {}

    private final Arena arena = Arena.ofShared();
    private final Map<String, Held> held = new HashMap<>();
    private final Offload offload;
    private final @Nullable PagedValues paged;
    /** Names of values in files. */
    private final Set<String> inFiles = new HashSet<>();

    /** Names of values with initial or written elements: states are initialised only once. */
    private final Set<String> filled = new HashSet<>();

    CpuMemory() {
        this(Offload.NONE);
    }

    /** @throws dev.octet.formats.error.InvalidOptionException when the folder of mapped files cannot be used */
    CpuMemory(Offload offload) {
        this.offload = offload;
        this.paged = offload.uses(Place.DISK) ? new PagedValues(offload.folder().orElseThrow()) : null;
    }

    /** {@code bytes} zeroed bytes in {@code arena}, aligned. */
    static MemorySegment zeros(Arena arena, long bytes, String what) {
        try {
            // one byte at least: an empty segment has no address
            return arena.allocate(Math.max(1, bytes), MemoryPlan.ALIGNMENT).asSlice(0, bytes);
        } catch (OutOfMemoryError e) {
            throw new UnavailableException(
                    "no memory for " + bytes + " bytes",
                    what,
                    "use a smaller batch or sequence, or give the process more memory",
                    e);
        }
    }

    /** Whether kernels can read elements where they are: outside of the heap, aligned to their width, open to all threads. */
    static boolean isUsable(OperandType type, MemorySegment elements) {
        return elements.isNative()
                && elements.address() % Math.max(1, type.dtype().bits() / 8) == 0
                && elements.isAccessibleBy(STRANGER);
    }

    /** Some thread other than those that open files. */
    private static final Thread STRANGER = Thread.ofPlatform().unstarted(() -> {});

    /** The memory of a value; allocated on first use. */
    MemorySegment segment(Value value) {
        Held h = held.get(value.name());
        if (h == null) {
            h = new Held(value.type(), zeros(arena, value.type().byteSize(), "value '" + value.name() + "'"));
            held.put(value.name(), h);
        } else if (!h.type().equals(value.type())) {
            throw new IllegalArgumentException("'" + value.name() + "' is " + h.type() + " here, not " + value.type());
        }
        return h.bytes();
    }

    /** Allocates what a program needs and is not there yet; initialises new states. */
    void admit(Program program) {
        program.stored().forEach((v, t) -> {
            if (!held.containsKey(v.name())) {
                if (isUsable(v.type(), t.bytes())) {
                    held.put(v.name(), new Held(v.type(), t.bytes()));
                } else {
                    segment(v).copyFrom(t.bytes());
                }
            }
        });
        page(program);
        for (Value v : program.lasting()) {
            MemorySegment bytes = segment(v);
            List<Float> initial = program.initialStates().get(v);
            if (initial != null && filled.add(v.name())) {
                boolean isZero = initial.size() == 1 && Float.floatToRawIntBits(initial.getFirst()) == 0;
                if (inFiles.contains(v.name()) && isZero) {
                    continue; // as the file is
                }
                ready();
                fill(new CpuTensor(v.type(), bytes), initial);
                done(v);
            }
        }
    }

    /** Allocates in a file what a program needs there. */
    private void page(Program program) {
        PagedValues files = paged;
        if (files == null) {
            return;
        }
        List<Value> missing = offload.valuesAt(Place.DISK, program).stream()
                .filter(v -> !held.containsKey(v.name()))
                .toList();
        if (missing.isEmpty()) {
            return;
        }
        List<MemorySegment> parts =
                files.allocate(missing.stream().map(v -> v.type().byteSize()).toList());
        for (int i = 0; i < parts.size(); i++) {
            Value v = missing.get(i);
            held.put(v.name(), new Held(v.type(), parts.get(i)));
            inFiles.add(v.name());
        }
    }

    /** What lies in files; null where nothing does. */
    @Nullable
    PagedValues paged() {
        return paged;
    }

    /** Whether a value lies in a file. */
    boolean isPaged(Value value) {
        return inFiles.contains(value.name());
    }

    /** To be called before values change. */
    void ready() {
        if (paged != null) {
            paged.reserve();
        }
    }

    private void done(Value value) {
        if (paged != null && inFiles.contains(value.name())) {
            paged.done(segment(value));
        }
    }

    static void fill(CpuTensor state, List<Float> initial) {
        for (long i = 0; i < state.count(); i++) {
            float x = initial.get(initial.size() == 1 ? 0 : (int) i);
            state.write(i, new float[] {x}, 0, 1);
        }
    }

    @Override
    public void write(Value value, MemorySegment bytes) {
        filled.add(value.name());
        ready();
        segment(value).copyFrom(bytes);
        done(value);
    }

    @Override
    public void read(Value value, MemorySegment bytes) {
        bytes.copyFrom(segment(value));
        done(value);
    }

    @Override
    public Optional<MemorySegment> hostBytes(Value value) {
        return isPaged(value) ? Optional.empty() : Optional.of(segment(value));
    }

    @Override
    public MemorySegment view(Value value, Arena unused) {
        return segment(value).asReadOnly();
    }

    @Override
    public void zero(Value value) {
        filled.add(value.name());
        ready();
        segment(value).fill((byte) 0);
        done(value);
    }

    @Override
    public void settle(Value value) {
        done(value);
    }

    @Override
    public MemorySegment aside(long bytes) {
        return paged == null || bytes < Offload.LEAST_BYTES ? Memory.super.aside(bytes) : paged.aside(bytes);
    }

    @Override
    public long offloadedBytes() {
        return paged == null ? 0 : paged.allocated();
    }

    @Override
    public void close() {
        if (paged != null) {
            paged.close();
        }
        arena.close();
    }
}
