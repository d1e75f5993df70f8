package dev.octet.trainer.device.cuda;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.device.Fetched;
import dev.octet.trainer.device.Memory;
import dev.octet.trainer.device.Offload;
import dev.octet.trainer.device.Offload.Place;
import dev.octet.trainer.device.RankSums;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.program.ValueRole;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Stream;

/** Persistent values on a GPU, by name; values that are admitted together share one allocation. */
final class CudaMemory implements Memory {
    /** Alignment of addresses in bytes. */
    static final long ALIGNMENT = 256;

    /** Largest write that is queued as part of a step; larger ones are initial weights and states. */
    private static final long LARGEST_OF_STEP = 4096;

    private record Held(CudaTensor tensor, Work zero) {}

    /** Works that zero several tensors, by what they fill. */
    private final Map<Block, Work> zeros = new HashMap<>();

    private record Block(long address, long bytes) {}

    private final Gpu gpu;
    private final CudaQueue queue;
    private final Map<String, Held> held = new HashMap<>();
    private final List<Block> blocks = new ArrayList<>();

    /** Names of values with initial or written elements: states are initialised only once. */
    private final Set<String> filled = new HashSet<>();

    private final Offload offload;
    /** Values in pinned memory of the host. */
    private final Map<String, CpuTensor> hosted = new HashMap<>();

    /** Pinned memory that closed programs had, by size. */
    private final TreeMap<Long, Deque<MemorySegment>> returned = new TreeMap<>();

    CudaMemory(Gpu gpu, CudaQueue queue) {
        this(gpu, queue, Offload.NONE);
    }

    CudaMemory(Gpu gpu, CudaQueue queue, Offload offload) {
        this.gpu = gpu;
        this.queue = queue;
        this.offload = offload;
    }

    static long aligned(long bytes) {
        return Math.ceilDiv(Math.max(1, bytes), ALIGNMENT) * ALIGNMENT;
    }

    /** Allocates the values that are not there yet. */
    void admit(Collection<Value> values) {
        admit(values, Set.of());
    }

    private void admit(Collection<Value> values, Set<Value> overwritten) {
        Map<String, OperandType> missing = new LinkedHashMap<>();
        long bytes = 0;
        for (Value v : values) {
            CpuTensor onHost = hosted.get(v.name());
            if (onHost != null) {
                requireType(v, onHost.type());
                continue;
            }
            Held h = held.get(v.name());
            OperandType known = h == null ? missing.get(v.name()) : h.tensor().type();
            if (known == null) {
                missing.put(v.name(), v.type());
                bytes += aligned(v.type().byteSize());
            } else {
                requireType(v, known);
            }
        }
        if (missing.isEmpty()) {
            return;
        }
        long at = gpu.allocate(bytes, missing.size() + " weights, gradients and states");
        blocks.add(new Block(at, bytes));
        Map<String, Integer> groups = new HashMap<>();
        for (Value v : values) {
            groups.put(v.name(), v.role() != ValueRole.GRADIENT ? 0 : overwritten.contains(v) ? 2 : 1);
        }
        // gradients side by side, so that those which are zeroed are zeroed together
        List<Map.Entry<String, OperandType>> order = new ArrayList<>(missing.entrySet());
        order.sort(Comparator.comparing(e -> groups.getOrDefault(e.getKey(), 0)));
        for (Map.Entry<String, OperandType> e : order) {
            OperandType type = e.getValue();
            held.put(e.getKey(), new Held(new CudaTensor(type, at), gpu.zero(at, type.byteSize())));
            at += aligned(type.byteSize());
        }
    }

    private static void requireType(Value value, OperandType known) {
        if (!known.equals(value.type())) {
            throw new IllegalArgumentException("'" + value.name() + "' is " + known + " here, not " + value.type());
        }
    }

    /** Pinned memory of the host for what a program keeps there within a micro-batch; at least so many bytes. */
    MemorySegment lend(long bytes) {
        if (bytes == 0) {
            return MemorySegment.NULL;
        }
        Map.Entry<Long, Deque<MemorySegment>> enough = returned.ceilingEntry(bytes);
        if (enough == null) {
            return gpu.pinned(bytes);
        }
        MemorySegment found = enough.getValue().pop();
        if (enough.getValue().isEmpty()) {
            returned.remove(enough.getKey());
        }
        return found;
    }

    /** Takes memory back that no work uses any more. */
    void takeBack(MemorySegment lent) {
        if (lent.byteSize() > 0) {
            returned.computeIfAbsent(lent.byteSize(), _ -> new ArrayDeque<>()).push(lent);
        }
    }

    /** Whether a value lies in host memory between the steps that use it. */
    boolean isHosted(Value value) {
        return hosted.containsKey(value.name());
    }

    /** Where a value lies in pinned memory of the host. */
    MemorySegment host(Value value) {
        CpuTensor t = hosted.get(value.name());
        if (t == null) {
            throw new IllegalStateException(value + " lies on the GPU");
        }
        return t.bytes();
    }

    /**
     * Allocates what a program needs and is not there yet; initialises new states.
     *
     * @param overwritten gradients that are not zeroed, most of the time
     */
    void admit(Program program, Set<Value> overwritten) {
        Set<String> known = new HashSet<>(held.keySet());
        known.addAll(hosted.keySet());
        for (Value v : offload.valuesAt(Place.HOST, program)) {
            if (!held.containsKey(v.name()) && !hosted.containsKey(v.name())) {
                hosted.put(v.name(), new CpuTensor(v.type(), gpu.pinned(v.type().byteSize())));
            }
        }
        admit(program.lasting(), overwritten);
        program.stored().forEach((v, t) -> {
            if (filled.add(v.name()) && t.bytes().byteSize() > 0) {
                store(v, t.bytes());
            }
        });
        try (Arena arena = Arena.ofConfined()) {
            for (Value v : program.lasting()) {
                List<Float> initial = program.initialStates().get(v);
                if (initial != null && filled.add(v.name()) && !(isZero(v, initial) && !known.contains(v.name()))) {
                    MemorySegment bytes = arena.allocate(Math.max(1, v.type().byteSize()), 64)
                            .asSlice(0, v.type().byteSize());
                    fill(new CpuTensor(v.type(), bytes), initial);
                    store(v, bytes);
                }
            }
        }
    }

    /** Whether a state begins with zero bytes, as new memory has them: the moments of an optimizer are as large as the weights. */
    private static boolean isZero(Value state, List<Float> initial) {
        return state.type().dtype() != DType.F8_E8M0 && initial.stream().allMatch(x -> Float.floatToRawIntBits(x) == 0);
    }

    private static void fill(CpuTensor state, List<Float> initial) {
        for (long i = 0; i < state.count(); i++) {
            float x = initial.get(initial.size() == 1 ? 0 : (int) i);
            state.write(i, new float[] {x}, 0, 1);
        }
    }

    /** Address and type of a value. */
    CudaTensor tensor(Value value) {
        return held(value).tensor();
    }

    private Held held(Value value) {
        Held h = held.get(value.name());
        if (h == null) {
            admit(List.of(value));
            h = held.get(value.name());
        }
        if (h == null || !h.tensor().type().equals(value.type())) {
            throw new IllegalArgumentException("'" + value.name() + "' is not " + value.type() + " here");
        }
        return h;
    }

    @Override
    public void write(Value value, MemorySegment bytes) {
        filled.add(value.name());
        store(value, bytes);
    }

    private void store(Value value, MemorySegment bytes) {
        if (isHosted(value)) {
            queue.finish();
            host(value).copyFrom(bytes);
            return;
        }
        CudaTensor to = tensor(value);
        if (bytes.byteSize() != to.byteSize()) {
            throw new IllegalArgumentException(value + " takes " + to.byteSize() + " bytes, not " + bytes.byteSize());
        }
        if (bytes.byteSize() <= LARGEST_OF_STEP) {
            queue.write(to.address(), bytes);
        } else {
            queue.start();
            gpu.write(to.address(), bytes);
        }
    }

    @Override
    public void read(Value value, MemorySegment bytes) {
        if (isHosted(value)) {
            queue.finish();
            bytes.copyFrom(host(value));
            return;
        }
        queue.start();
        gpu.read(tensor(value).address(), bytes);
    }

    /** Of a value in host memory, where it lies. */
    @Override
    public MemorySegment view(Value value, Arena arena) {
        if (isHosted(value)) {
            queue.finish();
            return host(value).asReadOnly();
        }
        return Memory.super.view(value, arena);
    }

    @Override
    public long offloadedBytes() {
        return hosted.values().stream().mapToLong(t -> t.bytes().byteSize()).sum();
    }

    @Override
    public Fetched fetch(Value value) {
        if (isHosted(value)) {
            return Memory.super.fetch(value);
        }
        CudaTensor t = tensor(value);
        return queue.fetch(t.address(), t.byteSize());
    }

    @Override
    public RankSums sums(Collectives world) {
        return NcclSums.join(gpu.nccl(), this, gpu, queue, world);
    }

    @Override
    public boolean start() {
        queue.start();
        return queue.isUnderWay();
    }

    @Override
    public void zero(Value value) {
        filled.add(value.name());
        if (isHosted(value)) {
            queue.finish();
            host(value).fill((byte) 0);
        } else if (value.type().byteSize() > 0) {
            queue.add(held(value).zero());
        }
    }

    /** Neighbours are filled by one work. */
    @Override
    public void zero(Collection<Value> values) {
        List<CudaTensor> tensors = new ArrayList<>();
        for (Value v : values) {
            if (isHosted(v)) {
                zero(v);
            } else if (v.type().byteSize() > 0) {
                filled.add(v.name());
                tensors.add(held(v).tensor());
            }
        }
        tensors.sort(Comparator.comparingLong(CudaTensor::address));
        int first = 0;
        for (int i = 1; i <= tensors.size(); i++) {
            if (i == tensors.size() || !isBehind(tensors.get(i - 1), tensors.get(i))) {
                CudaTensor last = tensors.get(i - 1);
                long at = tensors.get(first).address();
                long bytes = last.address() + last.byteSize() - at;
                queue.add(zeros.computeIfAbsent(new Block(at, bytes), b -> gpu.zero(b.address(), b.bytes())));
                first = i;
            }
        }
    }

    /** Whether nothing lies between two tensors of one allocation. */
    private boolean isBehind(CudaTensor before, CudaTensor behind) {
        return before.address() + aligned(before.byteSize()) == behind.address()
                && blocks.stream().noneMatch(b -> b.address() == behind.address());
    }

    @Override
    public void close() {
        List<Work> works = Stream.concat(held.values().stream().map(Held::zero), zeros.values().stream())
                .toList();
        for (Block b : blocks) {
            queue.forget(works, b.address(), b.bytes());
            gpu.release(b.address());
        }
    }
}
