package dev.octet.trainer.device;

import dev.octet.trainer.program.Value;
import java.lang.foreign.MemorySegment;

/** Lasting values on a device, by name. */
public interface Memory extends AutoCloseable {
    /** Copies {@code bytes} (row-major, little-endian, the value's size) to the device. */
    void write(Value value, MemorySegment bytes);

    /** Copies a value from the device; waits for what computes it. */
    void read(Value value, MemorySegment bytes);

    /** Fills with zeros. */
    void zero(Value value);

    @Override
    void close();
}
