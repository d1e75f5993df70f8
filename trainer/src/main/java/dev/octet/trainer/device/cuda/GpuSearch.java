package dev.octet.trainer.device.cuda;

import dev.octet.formats.error.UnavailableException;

/** Result of a search for a GPU. */
public sealed interface GpuSearch {
    /**
     * The GPU.
     *
     * @throws UnavailableException when Octet cannot use one
     */
    default Gpu orThrow() {
        return switch (this) {
            case Ready r -> r.gpu();
            case Unfit u -> throw u.cause();
        };
    }

    /** A usable GPU; the caller closes it. */
    record Ready(Gpu gpu) implements GpuSearch {}

    /**
     * The GPU, or something it needs, is missing or unsupported.
     *
     * @param what the problem
     * @param where every path tried
     * @param fix advice
     */
    record Unfit(String what, String where, String fix, UnavailableException cause) implements GpuSearch {
        static Unfit of(UnavailableException e) {
            return new Unfit(e.what(), e.where(), e.fix(), e);
        }
    }
}
