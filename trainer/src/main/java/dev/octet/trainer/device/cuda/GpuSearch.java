package dev.octet.trainer.device.cuda;

import dev.octet.formats.error.UnavailableException;

/** What came of looking for a GPU. */
public sealed interface GpuSearch {
    /**
     * The GPU.
     *
     * @throws UnavailableException when there is none that Octet can use
     */
    default Gpu orThrow() {
        return switch (this) {
            case Ready r -> r.gpu();
            case Unfit u -> throw u.cause();
        };
    }

    /** It works; whoever asked closes it. */
    record Ready(Gpu gpu) implements GpuSearch {}

    /**
     * It is not there, or something it needs is not.
     *
     * @param what is missing
     * @param where every path that was tried
     * @param fix what to do
     */
    record Unfit(String what, String where, String fix, UnavailableException cause) implements GpuSearch {
        static Unfit of(UnavailableException e) {
            return new Unfit(e.what(), e.where(), e.fix(), e);
        }
    }
}
