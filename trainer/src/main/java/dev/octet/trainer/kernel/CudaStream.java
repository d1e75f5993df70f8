package dev.octet.trainer.kernel;

/**
 * Receives the work that CUDA twins emit. The work runs in order, each item after the previous one has completed. Nothing runs while it is
 * emitted.
 *
 * <p>Addresses are reused in every run, so they must come from the twin's operands, {@link #workspace} or {@link #table}.
 */
public interface CudaStream {
    /** Number of multiprocessors, to size the grid of a grid-stride loop. */
    int multiprocessors();

    /** Compute capability, 10 · major + minor: 89 for Ada, 90 for Hopper, 100 for Blackwell. */
    int capability();

    /**
     * A launch of a kernel.
     *
     * @param kernel its name in the source
     * @param arguments in the kernel's order: {@link CudaTensor} or Long for pointers and 64-bit numbers, Integer, Float, Double; 0L for an
     *     absent pointer
     * @throws IllegalArgumentException when an argument has another type
     */
    void launch(CudaSource source, String kernel, Grid grid, Object... arguments);

    /** A launch whose arguments are named one by one; it is written by {@link CudaLaunch#launch}. */
    default CudaLaunch kernel(CudaSource source, String kernel, Grid grid) {
        return new CudaLaunch(this, source, kernel, grid);
    }

    /** A matrix product by the vendor's library. */
    void product(CudaProduct product);

    /** Whether the library computes a product; of its addresses only the alignment counts. */
    default boolean computes(CudaProduct product) {
        return true;
    }

    /** Whether the vendor's library computes an attention; of its addresses only the alignment counts. */
    default boolean computes(CudaAttention attention) {
        return false;
    }

    /** Attention by the vendor's library, which {@link #computes(CudaAttention) computes} it; it takes a {@link #workspace} of its own. */
    default void attention(CudaAttention attention) {
        throw new IllegalStateException("no library computes " + attention.name());
    }

    /** Copies bytes within the device. */
    void copy(long from, long to, long bytes);

    /**
     * Starts a copy to pinned memory of the host, after all work so far. What follows does not wait for it: {@link #awaitHost} does, in the same phase.
     *
     * @param host its address is the host's
     */
    void toHost(CudaTensor from, CudaTensor host);

    /** Starts a copy from pinned memory of the host, as {@link #toHost} does. */
    void fromHost(CudaTensor host, CudaTensor to);

    /** Has all that follows wait for the last copy to or from this memory of the host. */
    void awaitHost(CudaTensor host);

    /** Has the host do something with copies of tensors, when all work so far is complete and before what follows starts. */
    void onHost(CudaHostCall call);

    /** Fills with zero bytes. */
    void zero(long at, long bytes);

    /**
     * Temporary device memory for the current step, aligned to 256 bytes, with undefined contents. Calls within one step return different
     * memory; different steps share it.
     */
    long workspace(long bytes);

    /**
     * Has a kernel of many tensors compute a result: alone, or together with what other steps have it do. That launch may wait, of a gradient that outlives the
     * micro-batch: until a step touches the gradient, or the phase ends.
     *
     * @param count elements that are cut into pieces
     * @param row what the kernel knows of this tensor
     */
    void together(ManyTensorsKernel kernel, CudaTensor result, long count, long... row);

    /** As {@link #workspace(long)}, for what {@link #together} reads when it computes {@code result}. */
    long workspace(CudaTensor result, long bytes);

    /**
     * Memory for a form of an operand, which a kernel of many tensors makes: alone, or, of a weight, ahead of the phase together with those of others.
     *
     * @param form name of it
     * @param bytes that it takes
     * @param row what the kernel knows of this tensor; the form's address follows as the last word
     * @return the address, aligned to 64 bytes
     */
    long ahead(ManyTensorsKernel kernel, CudaTensor of, String form, long bytes, long... row);

    /**
     * Constant numbers in device memory with the lifetime of the program: addresses of many tensors for one launch, or strides.
     *
     * @return address of the first number, aligned to 256 bytes
     */
    long table(long... words);

    /**
     * Memory for another form of an operand, for example its transpose. A step that reads the operand requests it; the step that computes
     * the operand fills it. A step that requests a form and emits no work on the operand's own address need not find the operand in memory.
     *
     * @param form name by which the two steps refer to it
     * @return its address, aligned to 64 bytes; valid until the last step that requests it, of an operand that outlives micro-batches always
     */
    long derived(CudaTensor of, String form, long bytes);

    /** Address of a form of this step's result that a later step requested ({@link #derived}); 0 when no step did. */
    long wanted(CudaTensor of, String form);

    /**
     * Whether anything outside of the steps that are written together takes a result of theirs itself, not a form of it: what nothing takes need not be written. True as long as
     * that is not known.
     */
    default boolean isTaken(CudaTensor result) {
        return true;
    }

    /**
     * Has observers read a result of the steps that are written together elsewhere, in the workspace: one that no other step touches. Where this is called
     * the work so far is done for observers alone, behind that of the steps.
     */
    default void show(CudaTensor result, long at) {}

    /**
     * Blocks and threads of a launch.
     *
     * @param threads per block, in one dimension; a multiple of 32, at most 1024
     * @param sharedBytes dynamic shared memory per block
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

        /** A one-dimensional grid. */
        public static Grid of(long blocks, int threads) {
            return new Grid(blocks, 1, 1, threads, 0);
        }

        /** Enough blocks to give each thread {@code each} of {@code count} elements; at least one. */
        public static Grid over(long count, int threads, int each) {
            return of(Math.max(1, Math.ceilDiv(count, (long) threads * each)), threads);
        }

        /** This grid with dynamic shared memory. */
        public Grid withShared(int bytes) {
            return new Grid(x, y, z, threads, bytes);
        }
    }
}
