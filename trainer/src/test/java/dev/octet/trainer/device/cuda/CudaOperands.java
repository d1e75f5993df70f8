package dev.octet.trainer.device.cuda;

import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.CudaStream;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.OperandType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;

/** Operands of single twins on a GPU, made from numbers and read as numbers. */
public final class CudaOperands implements AutoCloseable {
    private static final int PIECE_BYTES = 1 << 26;

    private final Gpu gpu;
    private final List<Long> allocated = new ArrayList<>();

    public CudaOperands(Gpu gpu) {
        this.gpu = gpu;
    }

    /** A tensor with these elements, rounded to its type. */
    public CudaTensor tensor(OperandType type, double[] values) {
        try (Arena arena = Arena.ofConfined()) {
            CpuTensor t = cpu(arena, type);
            TestNumbers.write(t, values);
            return written(t);
        }
    }

    /** A tensor of these bytes. */
    public CudaTensor tensor(OperandType type, byte[] bytes) {
        return written(new CpuTensor(type, MemorySegment.ofArray(bytes)));
    }

    /** Filled with bytes that show when they are read: old contents are meaningless. */
    public CudaTensor empty(OperandType type) {
        try (Arena arena = Arena.ofConfined()) {
            CpuTensor t = cpu(arena, type);
            t.bytes().fill((byte) 0x77);
            return written(t);
        }
    }

    private static CpuTensor cpu(Arena arena, OperandType type) {
        return new CpuTensor(
                type, arena.allocate(Math.max(1, type.byteSize()), 64).asSlice(0, type.byteSize()));
    }

    private CudaTensor written(CpuTensor t) {
        long address = gpu.allocate(Math.max(1, t.bytes().byteSize()), "an operand of a test");
        allocated.add(address);
        if (t.bytes().byteSize() > 0) {
            gpu.write(address, t.bytes());
        }
        return new CudaTensor(t.type(), address);
    }

    /** The bytes of a tensor. */
    public byte[] bytes(CudaTensor t) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment all = arena.allocate(Math.max(1, t.byteSize()), 64).asSlice(0, t.byteSize());
            if (t.byteSize() > 0) {
                gpu.read(t.address(), all);
            }
            return all.toArray(java.lang.foreign.ValueLayout.JAVA_BYTE);
        }
    }

    /** The elements of a tensor. */
    public double[] numbers(CudaTensor t) {
        CpuTensor copy = new CpuTensor(t.type(), MemorySegment.ofArray(bytes(t)));
        return TestNumbers.read(copy);
    }

    /** Writes work twice, as programs do, and runs it; workspaces hold NaN before, in every type of float. */
    public void run(Consumer<CudaStream> writing) {
        prepared(writing, works -> {
            works.forEach(Work::run);
            gpu.synchronize();
        });
    }

    /** The same, and how long each work takes when it is run so often, by its name. */
    public Map<String, Double> microseconds(Consumer<CudaStream> writing, int runs) {
        Map<String, Double> times = new TreeMap<>();
        prepared(writing, works -> {
            works.forEach(Work::run);
            works.forEach(w -> times.put(w.name(), gpu.microseconds(w, runs)));
        });
        return times;
    }

    private void prepared(Consumer<CudaStream> writing, Consumer<List<Work>> use) {
        WorkWriter first = WorkWriter.first(gpu);
        writing.accept(first);
        long workspace = CudaMemory.aligned(first.workspace());
        long bytes = workspace + first.bytes();
        long room = gpu.allocate(bytes, "workspaces of a test");
        MemorySegment piece = MemorySegment.ofArray(new byte[(int) Math.min(bytes, PIECE_BYTES)])
                .fill((byte) 0xFF);
        for (long at = 0; at < bytes; at += PIECE_BYTES) {
            gpu.write(room + at, piece.asSlice(0, Math.min(PIECE_BYTES, bytes - at)));
        }
        MemorySegment exchange = first.exchangeBytes() == 0 ? MemorySegment.NULL : gpu.pinned(first.exchangeBytes());
        WorkWriter second = first.second(room + workspace, MemorySegment.NULL, exchange);
        second.begin(Map.of(), room);
        writing.accept(second);
        second.writeTables();
        List<Work> works = second.take();
        use.accept(works);
        works.forEach(Work::close);
        gpu.release(room);
    }

    @Override
    public void close() {
        allocated.forEach(gpu::release);
        gpu.close();
    }
}
