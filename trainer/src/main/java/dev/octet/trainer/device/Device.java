package dev.octet.trainer.device;

import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import java.util.Collection;

/**
 * A processor with its own memory. Parameters, state and gradients are in a {@link Memory} shared by several programs (one per shape); each
 * program's temporaries belong to its {@link Executable}.
 */
public interface Device extends AutoCloseable {
    /** Short name for logs and manifests: {@code cpu}, {@code reference}, {@code cuda:0}. */
    String name();

    /** The implementation of matrix products; for the user, with the reason if it is not the fastest possible. */
    String products();

    /** Whether the device multiplies FP8 codes; CPUs do, with lookup tables. */
    default boolean multipliesFp8() {
        return true;
    }

    /**
     * Allocates zeroed memory for persistent values. Values of different programs with the same name share memory.
     *
     * @throws dev.octet.formats.error.UnavailableException when memory does not suffice, before anything ran
     */
    Memory allocate(Collection<Value> lasting);

    /**
     * Prepares a program: allocates its temporaries, looks up its kernels.
     *
     * @throws dev.octet.formats.error.UnavailableException when memory does not suffice
     */
    Executable load(Program program, Memory memory);

    @Override
    void close();
}
