package dev.octet.trainer.kernel;

/** Resources of CPU twins: threads and matrix products. */
public record CpuContext(Parallel parallel, MatrixProducts gemm) {
    /** Elements per tile: three F32 tiles fit a first-level cache of 32 KiB. */
    public static final int TILE = 2048;

    /** Elements per piece of an elementwise pass: about ten microseconds of work, which outweighs the cost of handing it to a thread. */
    public static final long GRAIN = 16L * TILE;
}
