package dev.octet.trainer.kernel;

/**
 * Where CUDA twins write their work; each piece runs when those before it are through. Nothing runs while it is written.
 *
 * <p>Addresses passed to it are used again at every run, so they must be those of the twin's operands, of {@link #workspace} or of {@link
 * #table}.
 */
public interface CudaStream {
    /** Multiprocessors of the GPU, for the size of a grid that strides over its problem. */
    int multiprocessors();

    /** Compute capability, ten times the major number and the minor one: 89 for Ada, 90 for Hopper, 100 for Blackwell. */
    int capability();

    /**
     * A launch of a kernel.
     *
     * @param kernel its name in the source
     * @param arguments in the kernel's order: {@link CudaTensor} or Long for pointers and 64-bit numbers, Integer, Float, Double; 0L where a
     *     pointer is absent
     * @throws IllegalArgumentException for an argument of another type
     */
    void launch(CudaSource source, String kernel, Grid grid, Object... arguments);

    /** A launch whose arguments are named one by one; it is written by {@link CudaLaunch#launch}. */
    default CudaLaunch kernel(CudaSource source, String kernel, Grid grid) {
        return new CudaLaunch(this, source, kernel, grid);
    }

    /** A matrix product by the vendor's library. */
    void product(CudaProduct product);

    /** Copies bytes within the device. */
    void copy(long from, long to, long bytes);

    /** Fills with zero bytes. */
    void zero(long at, long bytes);

    /**
     * Device memory for the work of the step that is being written, aligned to 256; its old content is meaningless. Several calls within one
     * step give different memory; steps use the same.
     */
    long workspace(long bytes);

    /**
     * Numbers that lie in device memory as long as the program does: addresses of many tensors for one launch, or strides.
     *
     * @return address of the first, aligned to 256
     */
    long table(long... words);

    /**
     * Memory for another form of an operand, such as its transpose, which the step that makes the operand fills, too. Asked for by steps that
     * read it.
     *
     * @param form what it is called between the two steps
     * @return its address, aligned to 256; it lasts as long as the program
     */
    long derived(CudaTensor of, String form, long bytes);

    /** Where a later step asks for another form of what this step makes ({@link #derived}); 0 where none does. */
    long wanted(CudaTensor of, String form);

    /**
     * Blocks and threads of a launch.
     *
     * @param threads of a block, in one dimension; a multiple of 32, at most 1024
     * @param sharedBytes of dynamic shared memory of a block
     */
    record Grid(long x, int y, int z, int threads, int sharedBytes) {
        public Grid {
            if (x < 1 || x > Integer.MAX_VALUE || y < 1 || y > 65535 || z < 1 || z > 65535) {
                throw new IllegalArgumentException("a grid of " + x + " x " + y + " x " + z + " blocks");
            }
            if (threads < 32 || threads > 1024 || threads % 32 != 0 || sharedBytes < 0) {
                throw new IllegalArgumentException(threads + " threads, " + sharedBytes + " bytes of shared memory");
            }
        }

        /** A row of blocks. */
        public static Grid of(long blocks, int threads) {
            return new Grid(blocks, 1, 1, threads, 0);
        }

        /** Enough blocks that each thread has {@code each} of {@code count} elements; one block at least. */
        public static Grid over(long count, int threads, int each) {
            return of(Math.max(1, Math.ceilDiv(count, (long) threads * each)), threads);
        }

        /** The same with dynamic shared memory. */
        public Grid withShared(int bytes) {
            return new Grid(x, y, z, threads, bytes);
        }
    }
}
