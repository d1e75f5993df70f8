package dev.octet.trainer.device.cuda;

import dev.octet.trainer.kernel.CudaAttention;
import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream.Grid;
import java.lang.foreign.MemorySegment;
import java.util.Collection;
import java.util.List;
import java.util.OptionalLong;

/**
 * One GPU and its streams: the CUDA device's only interface to the hardware. Work runs in the order of the compute lane unless it is said otherwise. Not thread-safe.
 *
 * <p>Errors of the driver and the libraries are {@link dev.octet.formats.error.UnavailableException}s with the failed call, the error code
 * and its name, and advice.
 */
public interface Gpu extends AutoCloseable {
    /** Properties of the GPU. */
    GpuInfo info();

    /** Free device memory in bytes. */
    long freeBytes();

    /**
     * Allocates zeroed device memory, aligned to 256 bytes.
     *
     * @param what its purpose, for the message
     * @throws dev.octet.formats.error.UnavailableException when memory does not suffice; the message has the requested and the free size
     */
    long allocate(long bytes, String what);

    /** Frees memory; no running work may use it. */
    void release(long address);

    /** Allocates zeroed pinned host memory; freed with this object. */
    MemorySegment pinned(long bytes);

    /** Copies to the device, after all work so far; returns as soon as {@code from} may be changed. */
    void write(long to, MemorySegment from);

    /** Copies from the device, after waiting for all work so far. */
    void read(long from, MemorySegment to);

    /** Waits for all work so far. */
    void synchronize();

    /**
     * A kernel launch; compiles and loads the kernel.
     *
     * @param arguments Long, Integer, Float and Double in the kernel's order
     * @throws dev.octet.formats.error.UnavailableException when the source does not compile; the message has the compiler's log with source
     *     lines
     */
    Work launch(CudaSource source, String kernel, Grid grid, List<Object> arguments);

    /** Compiles what of these sources is not compiled yet, several at a time. Those that do not compile are reported when they are launched. */
    default void prepare(Collection<CudaSource> sources) {}

    /** A matrix product; chooses its algorithm. */
    Work product(CudaProduct product);

    /** Whether {@link #product} accepts a product; of its addresses only the alignment counts. */
    default boolean computes(CudaProduct product) {
        return true;
    }

    /** Bytes of workspace that the vendor's library needs for attention; empty where it does not compute it. Of its addresses only the alignment counts. */
    default OptionalLong attentionBytes(CudaAttention attention) {
        return OptionalLong.empty();
    }

    /**
     * Attention by the vendor's library.
     *
     * @param workspace of {@link #attentionBytes} bytes, aligned to 256
     */
    default Work attention(CudaAttention attention, long workspace) {
        throw new IllegalStateException("no library computes " + attention.name());
    }

    /** A copy within the device. */
    Work copy(long from, long to, long bytes);

    /** A copy from pinned memory to the device; reads the memory when the work runs. */
    Work upload(MemorySegment pinned, long to);

    /** A copy from the device to pinned memory; writes the memory when the work runs. */
    Work download(long from, MemorySegment pinned);

    /** As {@link #upload(MemorySegment, long)}, in a lane. */
    Work upload(Lane lane, MemorySegment pinned, long to);

    /** As {@link #download(long, MemorySegment)}, in a lane. */
    Work download(Lane lane, long from, MemorySegment pinned);

    /**
     * A point in {@code setter}, after all that was put there before, that {@code waiter} waits for with all that is put there afterwards. {@link #synchronize}
     * waits for the compute lane: what others do must be awaited there.
     */
    Signal signal(Lane setter, Lane waiter);

    /** Fills device memory with zero bytes. */
    Work zero(long at, long bytes);

    /** Records {@code works} as one graph, which runs as a single launch. The works stay usable and must outlive it. */
    Work graph(List<Work> works);

    /**
     * Runs work {@code runs} times after everything queued so far, and waits.
     *
     * @return microseconds per run by the GPU's own clock, from the start of the first run to the end of the last; with a single short run
     *     this includes launch latency
     */
    double microseconds(Work work, int runs);

    /**
     * The library that adds over several GPUs.
     *
     * @throws dev.octet.formats.error.UnavailableException when it is not there
     */
    Nccl nccl();

    /** The driver's handle of the compute lane, for libraries that queue work of their own; makes the GPU current in this thread. 0 in an emulation. */
    long stream();

    /** Frees all remaining memory and releases the GPU. */
    @Override
    void close();
}
