package dev.octet.trainer.step;

import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.device.Fetched;
import dev.octet.trainer.device.Memory;
import dev.octet.trainer.program.Value;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** Writes and reads single F32 numbers in device memory. */
final class Scalars implements AutoCloseable {
    private final Arena arena = Arena.ofShared();
    private final MemorySegment bytes = arena.allocate(Float.BYTES, Float.BYTES);

    void write(Memory memory, Value value, float x) {
        bytes.set(Tensor.F32_LE, 0, x);
        memory.write(value, bytes);
    }

    static float of(Fetched fetched) {
        return fetched.bytes().get(Tensor.F32_LE, 0);
    }

    @Override
    public void close() {
        arena.close();
    }
}
