package dev.octet.trainer.device.cuda;

import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.OperandType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Records the work that operators emit. Each program is emitted twice: first to determine how much memory its steps need in addition to
 * their operands, then, with that memory allocated, to prepare the work. Operators emit the same work both times.
 */
final class WorkWriter implements CudaStream {
    private final Gpu gpu;
    /** Copies to and from the host that nobody has waited for, by address there. */
    private final Map<Long, Signal> copies = new HashMap<>();

    private final @Nullable Room room;
    private final List<Long> words = new ArrayList<>();
    private final Map<Derived, Long> derived;
    private final Set<CudaSource> sources = new LinkedHashSet<>();
    private List<Work> works = new ArrayList<>();
    private long stepWorkspace;
    private long workspace;
    private long derivedBytes;
    private long tableBytes;

    /** Operands that share an address at different times differ in their type, or are alike. */
    private record Derived(long address, OperandType type, String form) {}

    /**
     * Addresses of the memory requested in the first pass.
     *
     * @param host pinned memory for values of the host
     */
    private record Room(long workspace, long derived, long tables, MemorySegment host) {
        MemorySegment at(CudaTensor hosted) {
            return host.asSlice(hosted.address() - host.address(), hosted.byteSize());
        }
    }

    private WorkWriter(Gpu gpu, @Nullable Room room, Map<Derived, Long> derived) {
        this.gpu = gpu;
        this.room = room;
        this.derived = derived;
    }

    /** The first pass: determines memory needs, prepares no work. */
    static WorkWriter first(Gpu gpu) {
        return new WorkWriter(gpu, null, new HashMap<>());
    }

    /** Bytes requested in the first pass. */
    long bytes() {
        return CudaMemory.aligned(workspace) + derivedBytes + CudaMemory.aligned(tableBytes);
    }

    /** Sources of the kernels launched in the first pass. */
    Set<CudaSource> sources() {
        return sources;
    }

    /**
     * The second pass, with {@link #bytes} of memory at {@code memory}.
     *
     * @param moved offset added to operand addresses that were below {@code end} in the first pass
     * @param host pinned memory for values of the host
     */
    WorkWriter second(long memory, long end, long moved, MemorySegment host) {
        long afterWorkspace = memory + CudaMemory.aligned(workspace);
        Map<Derived, Long> now = new HashMap<>();
        derived.forEach((d, at) ->
                now.put(d.address() < end ? new Derived(d.address() + moved, d.type(), d.form()) : d, at));
        return new WorkWriter(gpu, new Room(memory, afterWorkspace, afterWorkspace + derivedBytes, host), now);
    }

    /** Returns the work recorded since the last call; then the next step begins. */
    List<Work> take() {
        List<Work> step = works;
        works = new ArrayList<>();
        stepWorkspace = 0;
        return step;
    }

    /** Copies the tables to the device. */
    void writeTables() {
        if (room != null && !words.isEmpty()) {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment bytes = arena.allocate(ValueLayout.JAVA_LONG, words.size());
                for (int i = 0; i < words.size(); i++) {
                    bytes.setAtIndex(ValueLayout.JAVA_LONG, i, words.get(i));
                }
                gpu.write(room.tables(), bytes);
            }
        }
    }

    @Override
    public int multiprocessors() {
        return gpu.info().multiprocessors();
    }

    @Override
    public int capability() {
        return gpu.info().capability();
    }

    @Override
    public void launch(CudaSource source, String kernel, Grid grid, Object... arguments) {
        List<Object> numbers = new ArrayList<>(arguments.length);
        for (Object a : arguments) {
            numbers.add(
                    switch (a) {
                        case CudaTensor t -> t.address();
                        case Long x -> x;
                        case Integer x -> x;
                        case Float x -> x;
                        case Double x -> x;
                        default ->
                            throw new IllegalArgumentException("an argument of " + kernel + " is a "
                                    + a.getClass().getSimpleName());
                    });
        }
        CudaSource part = source.part(kernel);
        if (room != null) {
            works.add(gpu.launch(part, kernel, grid, numbers));
        } else {
            sources.add(part);
        }
    }

    @Override
    public void product(CudaProduct product) {
        if (room != null) {
            works.add(gpu.product(product));
        }
    }

    @Override
    public boolean computes(CudaProduct product) {
        return gpu.computes(product);
    }

    @Override
    public void copy(long from, long to, long bytes) {
        if (room != null && bytes > 0) {
            works.add(gpu.copy(from, to, bytes));
        }
    }

    @Override
    public void toHost(CudaTensor from, CudaTensor host) {
        if (room != null) {
            begin(Lane.OUT);
            works.add(gpu.download(Lane.OUT, from.address(), room.at(host)));
            end(Lane.OUT, host);
        }
    }

    @Override
    public void fromHost(CudaTensor host, CudaTensor to) {
        if (room != null) {
            begin(Lane.IN);
            works.add(gpu.upload(Lane.IN, room.at(host), to.address()));
            end(Lane.IN, host);
        }
    }

    /** What a lane does next waits for all work so far. */
    private void begin(Lane lane) {
        Signal computed = gpu.signal(Lane.COMPUTE, lane);
        works.add(computed.set());
        works.add(computed.await());
    }

    private void end(Lane lane, CudaTensor host) {
        Signal copied = gpu.signal(lane, Lane.COMPUTE);
        works.add(copied.set());
        copies.put(host.address(), copied);
    }

    @Override
    public void awaitHost(CudaTensor host) {
        if (room != null) {
            Signal copied = copies.remove(host.address());
            if (copied == null) {
                throw new IllegalStateException("nothing is copied to or from the host at " + host.address());
            }
            works.add(copied.await());
        }
    }

    @Override
    public void zero(long at, long bytes) {
        if (room != null && bytes > 0) {
            works.add(gpu.zero(at, bytes));
        }
    }

    @Override
    public long workspace(long bytes) {
        long at = stepWorkspace;
        stepWorkspace += CudaMemory.aligned(bytes);
        workspace = Math.max(workspace, stepWorkspace);
        return room == null ? CudaMemory.ALIGNMENT : room.workspace() + at;
    }

    @Override
    public long table(long... numbers) {
        long at = tableBytes;
        for (long x : numbers) {
            words.add(x);
        }
        while (words.size() % (CudaMemory.ALIGNMENT / Long.BYTES) != 0) {
            words.add(0L);
        }
        tableBytes = (long) words.size() * Long.BYTES;
        return room == null ? CudaMemory.ALIGNMENT : room.tables() + at;
    }

    @Override
    public long derived(CudaTensor of, String form, long bytes) {
        Derived key = new Derived(of.address(), of.type(), form);
        Long at = derived.get(key);
        if (at == null) {
            if (room != null) {
                throw new IllegalStateException("an operator emitted different work in the second pass: " + form);
            }
            at = derivedBytes;
            derived.put(key, at);
            derivedBytes += CudaMemory.aligned(bytes);
        }
        return room == null ? CudaMemory.ALIGNMENT : room.derived() + at;
    }

    @Override
    public long wanted(CudaTensor of, String form) {
        Long at = derived.get(new Derived(of.address(), of.type(), form));
        return at == null || room == null ? 0 : room.derived() + at;
    }
}
