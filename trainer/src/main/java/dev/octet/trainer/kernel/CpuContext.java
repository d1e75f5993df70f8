package dev.octet.trainer.kernel;

/** What CPU twins work with: threads and matrix products. */
public record CpuContext(Parallel parallel, MatrixProducts gemm) {
    /** Elements of a tile: three of them in F32 lie in a first-level cache of 32 KiB. */
    public static final int TILE = 2048;

    /** Elements of a piece of an elementwise pass: some ten microseconds of work, which outweighs handing it to a thread. */
    public static final long GRAIN = 16L * TILE;
}
