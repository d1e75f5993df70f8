package dev.octet.trainer.device.cuda;

import dev.octet.trainer.kernel.CudaAttention;
import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream.Grid;
import java.lang.foreign.MemorySegment;
import java.util.Collection;
import java.util.List;
import java.util.OptionalLong;

/** A GPU that does what another does; tests watch some of it. */
class ForwardingGpu implements Gpu {
    private final Gpu gpu;

    ForwardingGpu(Gpu gpu) {
        this.gpu = gpu;
    }

    @Override
    public GpuInfo info() {
        return gpu.info();
    }

    @Override
    public long freeBytes() {
        return gpu.freeBytes();
    }

    @Override
    public long allocate(long bytes, String what) {
        return gpu.allocate(bytes, what);
    }

    @Override
    public void release(long address) {
        gpu.release(address);
    }

    @Override
    public MemorySegment pinned(long bytes) {
        return gpu.pinned(bytes);
    }

    @Override
    public void write(long to, MemorySegment from) {
        gpu.write(to, from);
    }

    @Override
    public void read(long from, MemorySegment to) {
        gpu.read(from, to);
    }

    @Override
    public void synchronize() {
        gpu.synchronize();
    }

    @Override
    public Work launch(CudaSource source, String kernel, Grid grid, List<Object> arguments) {
        return gpu.launch(source, kernel, grid, arguments);
    }

    @Override
    public void prepare(Collection<CudaSource> sources) {
        gpu.prepare(sources);
    }

    @Override
    public Work product(CudaProduct product) {
        return gpu.product(product);
    }

    @Override
    public boolean computes(CudaProduct product) {
        return gpu.computes(product);
    }

    @Override
    public OptionalLong attentionBytes(CudaAttention attention) {
        return gpu.attentionBytes(attention);
    }

    @Override
    public Work attention(CudaAttention attention, long workspace) {
        return gpu.attention(attention, workspace);
    }

    @Override
    public Work copy(long from, long to, long bytes) {
        return gpu.copy(from, to, bytes);
    }

    @Override
    public Work upload(MemorySegment pinned, long to) {
        return gpu.upload(pinned, to);
    }

    @Override
    public Work download(long from, MemorySegment pinned) {
        return gpu.download(from, pinned);
    }

    @Override
    public Work upload(Lane lane, MemorySegment pinned, long to) {
        return gpu.upload(lane, pinned, to);
    }

    @Override
    public Work download(Lane lane, long from, MemorySegment pinned) {
        return gpu.download(lane, from, pinned);
    }

    @Override
    public Signal signal(Lane setter, Lane waiter) {
        return gpu.signal(setter, waiter);
    }

    @Override
    public Work zero(long at, long bytes) {
        return gpu.zero(at, bytes);
    }

    @Override
    public Work graph(List<Work> works) {
        return gpu.graph(works);
    }

    @Override
    public double microseconds(Work work, int runs) {
        return gpu.microseconds(work, runs);
    }

    @Override
    public Nccl nccl() {
        return gpu.nccl();
    }

    @Override
    public long stream() {
        return gpu.stream();
    }

    @Override
    public void close() {
        gpu.close();
    }

    /** A work that tells of itself whenever it runs. */
    static Work telling(Work work, Runnable tells) {
        return new Work() {
            @Override
            public String name() {
                return work.name();
            }

            @Override
            public void run() {
                tells.run();
                work.run();
            }

            @Override
            public void close() {
                work.close();
            }
        };
    }
}
