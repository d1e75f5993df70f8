package dev.octet.trainer.kernel;

import java.util.List;

/**
 * Fuses consecutive steps into fewer launches. Results that other steps read equal those of the separate steps: bitwise for codes, scales
 * and amaxes, within the twins' error bounds for sums.
 */
public interface CudaFusion {
    /** Number of calls from index {@code at} on that this fusion covers; 0 when it does not match. */
    int length(List<CudaCall> calls, int at);

    /** Emits the fused work. */
    void write(List<CudaCall> calls, CudaStream cuda);

    /** Emits what {@link #write} leaves out because no step reads it: run before the fused work on steps that are observed. Nothing by default. */
    default void writeUnread(List<CudaCall> calls, CudaStream cuda) {}
}
