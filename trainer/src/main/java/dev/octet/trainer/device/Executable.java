package dev.octet.trainer.device;

import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import org.jspecify.annotations.Nullable;

/** A program on a device. Not thread-safe. */
public interface Executable extends AutoCloseable {
    /** What runs here. */
    Program program();

    /** Bytes of the memory that belongs to this executable alone: inputs, constants, temporaries. */
    long bytes();

    /** Copies an input to the device. Inputs stay until they are fed again. */
    void feed(Value input, MemorySegment bytes);

    /** Runs the steps of one phase in order. */
    void run(Phase phase);

    /**
     * Copies a value to {@code bytes}; waits for what computes it. Outputs and lasting values can be read at any time, temporaries by a
     * {@link StepObserver} only: their memory is used again.
     */
    void read(Value value, MemorySegment bytes);

    /** Has a value copied behind the work asked for so far, without waiting for it; of the values that {@link #read} reads. */
    default Fetched fetch(Value value) {
        MemorySegment copy = Arena.ofAuto().allocate(Math.max(1, value.type().byteSize()), 64);
        read(value, copy.asSlice(0, value.type().byteSize()));
        return () -> copy;
    }

    /** Has every step watched from now on, or none with null. Watching slows a device down that runs steps ahead. */
    void observe(@Nullable StepObserver observer);

    @Override
    void close();
}
