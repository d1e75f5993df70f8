package dev.octet.trainer.device.cuda;

import java.util.Collection;
import java.util.Optional;

/**
 * What a kernel is compiled for.
 *
 * @param capability ten times the major number and the minor one: 89, 90, 100
 * @param ptx whether it is PTX, which the driver compiles for this capability and all later ones; machine code of this one otherwise
 */
record ComputeCapability(int capability, boolean ptx) {
    /** Machine code of a GPU where the compiler knows it, else the newest PTX that the GPU's driver can compile. */
    static Optional<ComputeCapability> of(int capability, Collection<Integer> known) {
        if (known.contains(capability)) {
            return Optional.of(new ComputeCapability(capability, false));
        }
        return known.stream()
                .filter(c -> c < capability)
                .max(Integer::compare)
                .map(c -> new ComputeCapability(c, true));
    }

    /**
     * The compiler's word: {@code sm_90a}, {@code compute_89}. Hopper's machine code has the suffix that allows its own instructions; PTX
     * has none, or later GPUs could not run it.
     */
    String option() {
        if (ptx) {
            return "compute_" + capability;
        }
        return "sm_" + capability + (capability == 90 ? "a" : "");
    }

    /** Name of files of this kind. */
    String extension() {
        return ptx ? "ptx" : "cubin";
    }
}
