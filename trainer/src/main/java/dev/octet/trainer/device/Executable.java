package dev.octet.trainer.device;

import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Value;
import java.lang.foreign.MemorySegment;

/** A program on a device. Not thread-safe. */
public interface Executable extends AutoCloseable {
    /** Copies an input to the device. */
    void feed(Value input, MemorySegment bytes);

    /** Runs the steps of one phase in order. */
    void run(Phase phase);

    /** Copies an output to {@code bytes}; waits for what computes it. */
    void read(Value output, MemorySegment bytes);

    @Override
    void close();
}
