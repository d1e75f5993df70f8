package dev.octet.trainer.device.cuda;

import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream.Grid;
import java.lang.foreign.MemorySegment;
import java.util.List;

/**
 * One GPU and one stream of work on it: all that the CUDA device knows of the machine. Work runs in the order in which it is put on the
 * stream. Not thread-safe.
 *
 * <p>Errors of the driver and the libraries are {@link dev.octet.formats.error.UnavailableException}: what failed, its code and name, what
 * to do.
 */
public interface Gpu extends AutoCloseable {
    /** What it is. */
    GpuInfo info();

    /** Bytes that can be allocated now. */
    long freeBytes();

    /**
     * Device memory, zero-filled, its address a multiple of 256.
     *
     * @param what it is for, for the message
     * @throws dev.octet.formats.error.UnavailableException when it does not fit: how much was wanted, how much is free
     */
    long allocate(long bytes, String what);

    /** Gives memory back; no work that uses it may be under way. */
    void release(long address);

    /** Memory of the host that the GPU reads and writes by itself, zero-filled; it is freed with this object. */
    MemorySegment pinned(long bytes);

    /** Copies to the device behind all work so far; returns when {@code from} may be changed. */
    void write(long to, MemorySegment from);

    /** Waits for all work so far, then copies from the device. */
    void read(long from, MemorySegment to);

    /** Waits for all work so far. */
    void synchronize();

    /**
     * A launch, its kernel compiled and loaded.
     *
     * @param arguments Long, Integer, Float and Double in the kernel's order
     * @throws dev.octet.formats.error.UnavailableException when the source does not compile: the compiler's log, with the source's lines
     */
    Work launch(CudaSource source, String kernel, Grid grid, List<Object> arguments);

    /** A matrix product, its algorithm chosen. */
    Work product(CudaProduct product);

    /** A copy within the device. */
    Work copy(long from, long to, long bytes);

    /** A copy from pinned memory, which is read when the work runs. */
    Work upload(MemorySegment pinned, long to);

    /** A copy to pinned memory, which is written when the work runs. */
    Work download(long from, MemorySegment pinned);

    /** A fill with zero bytes. */
    Work zero(long at, long bytes);

    /** All of {@code works} as one graph, which is launched at once. They stay as they are and must outlive it. */
    Work graph(List<Work> works);

    /**
     * Runs work {@code runs} times behind all that was put on the stream, and waits.
     *
     * @return microseconds of one run by the GPU's own clock: from the start of the first to the end of the last, divided by their number;
     *     with one run of something short, the start of the launch is in it
     */
    double microseconds(Work work, int runs);

    /** Frees the memory that is left and gives the GPU back. */
    @Override
    void close();
}
