package dev.octet.trainer.device;

import dev.octet.trainer.program.Value;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/** Lasting values on a device, by name. */
public interface Memory extends AutoCloseable {
    /** Copies {@code bytes} (row-major, little-endian, the value's size) to the device. */
    void write(Value value, MemorySegment bytes);

    /** Copies a value from the device; waits for what computes it. */
    void read(Value value, MemorySegment bytes);

    /**
     * A value's bytes as they are until the device computes again or is written to: not to be changed, and read before that. The memory of a
     * device that is the host's is handed out itself, so that a checkpoint takes no second copy of the weights and moments.
     *
     * @param arena where a copy goes if one is needed
     */
    default MemorySegment view(Value value, Arena arena) {
        MemorySegment copy = arena.allocate(Math.max(1, value.type().byteSize()), 64)
                .asSlice(0, value.type().byteSize());
        read(value, copy);
        return copy;
    }

    /** Has a value copied behind the work asked for so far, without waiting for it. */
    default Fetched fetch(Value value) {
        MemorySegment copy = Arena.ofAuto().allocate(Math.max(1, value.type().byteSize()), 64);
        read(value, copy.asSlice(0, value.type().byteSize()));
        return () -> copy;
    }

    /** Fills with zeros. */
    void zero(Value value);

    @Override
    void close();
}
