package dev.octet.bench.gpu;

import dev.octet.trainer.device.cuda.Gpu;
import dev.octet.trainer.device.cuda.GpuInfo;
import dev.octet.trainer.device.cuda.Lane;
import dev.octet.trainer.device.cuda.Nccl;
import dev.octet.trainer.device.cuda.Signal;
import dev.octet.trainer.device.cuda.Work;
import dev.octet.trainer.kernel.CudaAttention;
import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream.Grid;
import java.lang.foreign.MemorySegment;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;

/**
 * A GPU that counts the memory it gives, and that can be told to time each work by itself instead of running graphs: then nothing overlaps, and
 * the sum is more than a step takes.
 */
final class MeasuredGpu implements Gpu {
    private final Gpu gpu;
    private final Map<Long, Long> allocated = new HashMap<>();
    private final Map<String, KernelTime> times = new LinkedHashMap<>();
    private long bytes;
    private long peakBytes;
    private boolean timing;

    MeasuredGpu(Gpu gpu) {
        this.gpu = gpu;
    }

    /** Most bytes that were allocated at once. */
    long peakBytes() {
        return peakBytes;
    }

    /** The peak is counted anew. */
    void forgetPeak() {
        peakBytes = bytes;
    }

    /** From now on works are timed one by one, or no longer. */
    void time(boolean on) {
        timing = on;
    }

    /** What was timed so far, the longest first. */
    List<KernelTime> times() {
        return times.values().stream()
                .sorted(Comparator.comparingDouble(KernelTime::micros).reversed())
                .toList();
    }

    /** A work of the GPU's with what it multiplies. */
    private final class Timed implements Work {
        private final Work work;
        private final double flops;
        private final boolean fp8;

        Timed(Work work, double flops, boolean fp8) {
            this.work = work;
            this.flops = flops;
            this.fp8 = fp8;
        }

        @Override
        public void run() {
            if (timing) {
                double micros = gpu.microseconds(work, 1);
                times.merge(name(), new KernelTime(name(), 1, micros, bytes(), flops, fp8), KernelTime::and);
            } else {
                work.run();
            }
        }

        @Override
        public String name() {
            return work.name();
        }

        @Override
        public long bytes() {
            return work.bytes();
        }

        @Override
        public void close() {
            work.close();
        }
    }

    /** A graph, or its works one by one while they are timed. */
    private final class Graph implements Work {
        private final Work graph;
        private final List<Work> works;

        Graph(Work graph, List<Work> works) {
            this.graph = graph;
            this.works = works;
        }

        @Override
        public void run() {
            if (timing) {
                works.forEach(Work::run);
            } else {
                graph.run();
            }
        }

        @Override
        public String name() {
            return graph.name();
        }

        @Override
        public long bytes() {
            return graph.bytes();
        }

        @Override
        public void close() {
            graph.close();
        }
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
    public long allocate(long size, String what) {
        long address = gpu.allocate(size, what);
        allocated.put(address, size);
        bytes += size;
        peakBytes = Math.max(peakBytes, bytes);
        return address;
    }

    @Override
    public void release(long address) {
        gpu.release(address);
        Long size = allocated.remove(address);
        bytes -= size == null ? 0 : size;
    }

    @Override
    public MemorySegment pinned(long size) {
        return gpu.pinned(size);
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
        return new Timed(gpu.launch(source, kernel, grid, arguments), 0, false);
    }

    @Override
    public void prepare(Collection<CudaSource> sources) {
        gpu.prepare(sources);
    }

    @Override
    public Work product(CudaProduct p) {
        return new Timed(gpu.product(p), p.flops(), p.isFp8());
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
    public Work attention(CudaAttention a, long workspace) {
        return new Timed(gpu.attention(a, workspace), a.flops(), false);
    }

    @Override
    public Work copy(long from, long to, long size) {
        return new Timed(gpu.copy(from, to, size), 0, false);
    }

    @Override
    public Work upload(MemorySegment pinned, long to) {
        return new Timed(gpu.upload(pinned, to), 0, false);
    }

    @Override
    public Work download(long from, MemorySegment pinned) {
        return new Timed(gpu.download(from, pinned), 0, false);
    }

    @Override
    public Work upload(Lane lane, MemorySegment pinned, long to) {
        return new Timed(gpu.upload(lane, pinned, to), 0, false);
    }

    @Override
    public Work download(Lane lane, long from, MemorySegment pinned) {
        return new Timed(gpu.download(lane, from, pinned), 0, false);
    }

    @Override
    public Signal signal(Lane setter, Lane waiter) {
        return gpu.signal(setter, waiter);
    }

    @Override
    public Work zero(long at, long size) {
        return new Timed(gpu.zero(at, size), 0, false);
    }

    /** Its works are this GPU's own, so none of them is timed while the graph is made. */
    @Override
    public Work graph(List<Work> works) {
        boolean before = timing;
        timing = false;
        try {
            return new Graph(gpu.graph(works), works);
        } finally {
            timing = before;
        }
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
}
