package dev.octet.trainer.kernel;

import java.util.List;

/**
 * Several steps that follow each other, written as fewer launches. The results that any other step reads are the same as those of the
 * steps' own twins: to the bit for codes, scales and amaxes, within the twins' bounds for sums.
 */
public interface CudaFusion {
    /** How many of {@code calls}, from number {@code at} on, this does; 0 when it does not begin here. */
    int length(List<CudaCall> calls, int at);

    /** Writes their work. */
    void write(List<CudaCall> calls, CudaStream cuda);
}
