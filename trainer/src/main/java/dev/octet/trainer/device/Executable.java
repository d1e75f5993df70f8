package dev.octet.trainer.device;

import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** A program on a device. Not thread-safe. */
public interface Executable extends AutoCloseable {
    /** The loaded program. */
    Program program();

    /** Bytes of memory of this executable alone: inputs, constants, temporaries. */
    long bytes();

    /** Copies an input to the device. Inputs persist until they are fed again. */
    void feed(Value input, MemorySegment bytes);

    /**
     * Tells what will be fed to an input next: a device that still computes copies it meanwhile to where it is taken from then. Nothing changes if other bytes are fed.
     *
     * @param bytes what will be fed; its contents do not change
     */
    default void stage(Value input, MemorySegment bytes) {}

    /** Runs the steps of one phase in order. */
    void run(Phase phase);

    /**
     * Gradients that {@link #runFirstBackward} writes whatever they hold: before it only the others need be zero. None where a device has it add to all.
     */
    default Set<Value> overwritten() {
        return Set.of();
    }

    /** Runs {@link Phase#BACKWARD} of a step's first micro-batch. */
    default void runFirstBackward() {
        run(Phase.BACKWARD);
    }

    /**
     * Copies a value to {@code bytes}, after waiting for the work that computes it. Outputs and persistent values can be read at any time,
     * temporaries only by a {@link StepObserver}, because their memory is reused.
     */
    void read(Value value, MemorySegment bytes);

    /** Queues a copy of a value behind the work so far, without waiting; for the values that {@link #read} accepts. */
    default Fetched fetch(Value value) {
        MemorySegment copy = Arena.ofAuto().allocate(Math.max(1, value.type().byteSize()), 64);
        read(value, copy.asSlice(0, value.type().byteSize()));
        return () -> copy;
    }

    /** Sets the observer of every step from now on; null for none. Observation slows down devices that run asynchronously. */
    void observe(@Nullable StepObserver observer);

    @Override
    void close();
}
