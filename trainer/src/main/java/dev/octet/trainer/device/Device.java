package dev.octet.trainer.device;

import dev.octet.formats.error.InvalidOptionException;
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

    /** Whether products of codes can add up as Hopper's FP8 units do: by emulation, or as the device is one. */
    default boolean addsLikeHopper() {
        return true;
    }

    /** Bytes that programs and their values can take at most; a device without a number refuses when it allocates. */
    default long limitBytes() {
        return Long.MAX_VALUE;
    }

    /**
     * Allocates zeroed memory for persistent values. Values of different programs with the same name share memory.
     *
     * @throws dev.octet.formats.error.UnavailableException when memory does not suffice, before anything ran
     */
    Memory allocate(Collection<Value> lasting);

    /**
     * As {@link #allocate(Collection)}, for programs whose values {@code offload} names lie elsewhere between their uses.
     *
     * @throws dev.octet.formats.error.InvalidOptionException when the device has no such place
     * @throws dev.octet.formats.error.UnavailableException when the place cannot be used
     */
    default Memory allocate(Collection<Value> lasting, Offload offload) {
        if (offload.isOn()) {
            throw new InvalidOptionException(
                    "the device '" + name() + "' offloads nothing", "offload", "leave offload out, or use cpu or cuda");
        }
        return allocate(lasting);
    }

    /**
     * Prepares a program: allocates its temporaries, looks up its kernels.
     *
     * @throws dev.octet.formats.error.UnavailableException when memory does not suffice
     */
    Executable load(Program program, Memory memory);

    @Override
    void close();
}
