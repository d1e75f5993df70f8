package dev.octet.trainer.device;

import dev.octet.trainer.program.Program;
import dev.octet.trainer.program.Value;
import java.util.Collection;

/**
 * A processor with memory of its own. Parameters, state and gradients live in {@link Memory}, which several programs (one per shape)
 * share; each program's temporaries live in the {@link Executable} made for it.
 */
public interface Device extends AutoCloseable {
    /** Short name for logs and manifests: {@code cpu}, {@code reference}, {@code cuda:0}. */
    String name();

    /** What computes matrix products, and where that is not the fastest there could be, why: for whoever starts a run. */
    String products();

    /** Whether it multiplies FP8 codes; a processor does, by tables. */
    default boolean multipliesFp8() {
        return true;
    }

    /**
     * Memory for lasting values, zero-filled. Values of different programs with the same name are the same memory.
     *
     * @throws dev.octet.formats.error.UnavailableException when it does not fit, before anything ran
     */
    Memory allocate(Collection<Value> lasting);

    /**
     * Makes a program ready to run: allocates its temporaries, looks up its kernels.
     *
     * @throws dev.octet.formats.error.UnavailableException when it does not fit
     */
    Executable load(Program program, Memory memory);

    @Override
    void close();
}
