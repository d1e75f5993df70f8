package dev.octet.trainer.device.cuda;

import java.util.Collection;
import java.util.Optional;

/**
 * Target of a kernel's compilation.
 *
 * @param capability 10 · major + minor: 89, 90, 100
 * @param ptx whether to emit PTX, which the driver compiles for this and later capabilities; otherwise machine code for this one only
 */
record ComputeCapability(int capability, boolean ptx) {
    /** Machine code for the GPU if the compiler knows its capability, else the newest PTX that the GPU can run. */
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
     * The compiler's name: {@code sm_90a}, {@code compute_89}. Machine code for Hopper has the suffix that enables its own instructions;
     * PTX has no suffix, because later GPUs could not run it otherwise.
     */
    String option() {
        if (ptx) {
            return "compute_" + capability;
        }
        return "sm_" + capability + (capability == 90 ? "a" : "");
    }

    /** File extension. */
    String extension() {
        return ptx ? "ptx" : "cubin";
    }
}
