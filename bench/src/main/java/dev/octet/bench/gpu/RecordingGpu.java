package dev.octet.bench.gpu;

import dev.octet.trainer.device.cuda.Gpu;
import dev.octet.trainer.device.cuda.GpuInfo;
import dev.octet.trainer.device.cuda.Lane;
import dev.octet.trainer.device.cuda.Nccl;
import dev.octet.trainer.device.cuda.Signal;
import dev.octet.trainer.device.cuda.Work;
import dev.octet.trainer.kernel.CudaAttention;
import dev.octet.trainer.kernel.CudaAttention.Shape;
import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream.Grid;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;

/**
 * A GPU that computes nothing and writes down what it is told to do. Its addresses have no memory behind them: what is read is zero. As that of a GPU its
 * library of products takes all that the rules of cublasLt allow; of attention a library computes nothing, or all.
 */
final class RecordingGpu implements Gpu {
    /** The GPU on which steps were measured. */
    static final GpuInfo H200 = new GpuInfo(0, "NVIDIA H200", 90, 132, 150_109_880_320L, "recorded");

    private static final long ALIGNMENT = 256;

    private final Arena pinned = Arena.ofShared();
    private final List<RecordedWork> works = new ArrayList<>();
    private long next = 1L << 40; // unlike any number that a kernel is given
    private boolean recording;
    private int graphs;
    private boolean inGraph;
    private int alone;
    private long writtenBytes;
    private final boolean cudnn;

    /** @param cudnn whether a library computes attention */
    RecordingGpu(boolean cudnn) {
        this.cudnn = cudnn;
    }

    /** From now on works that run are written down, or no longer. */
    void record(boolean on) {
        recording = on;
    }

    /** What ran while it was written down, in order. */
    List<RecordedWork> works() {
        return List.copyOf(works);
    }

    /** Graphs that ran meanwhile. */
    int graphs() {
        return graphs;
    }

    /** Works that ran meanwhile outside of graphs. */
    int alone() {
        return alone;
    }

    /** Bytes copied to the device by other means than works: weights, states, tables. */
    long writtenBytes() {
        return writtenBytes;
    }

    private final class Recorded implements Work {
        private final RecordedWork what;
        private final long bytes;

        Recorded(RecordedWork what, long bytes) {
            this.what = what;
            this.bytes = bytes;
        }

        @Override
        public void run() {
            if (recording) {
                works.add(what);
                alone += inGraph ? 0 : 1;
            }
        }

        @Override
        public String name() {
            return what.name();
        }

        @Override
        public long bytes() {
            return bytes;
        }
    }

    private Work transfer(String name, long bytes) {
        return new Recorded(new RecordedWork.Transfer(name, bytes), bytes);
    }

    @Override
    public GpuInfo info() {
        return H200;
    }

    @Override
    public long freeBytes() {
        return H200.totalBytes();
    }

    @Override
    public long allocate(long bytes, String what) {
        long address = next;
        next += Math.ceilDiv(Math.max(1, bytes), ALIGNMENT) * ALIGNMENT;
        return address;
    }

    @Override
    public void release(long address) {}

    @Override
    public MemorySegment pinned(long bytes) {
        return pinned.allocate(bytes, ALIGNMENT);
    }

    @Override
    public void write(long to, MemorySegment from) {
        writtenBytes += from.byteSize();
    }

    @Override
    public void read(long from, MemorySegment to) {
        to.fill((byte) 0);
    }

    @Override
    public void synchronize() {}

    @Override
    public Work launch(CudaSource source, String kernel, Grid grid, List<Object> arguments) {
        return new Recorded(new RecordedWork.Kernel(source, kernel, grid, List.copyOf(arguments)), 0);
    }

    @Override
    public Work product(CudaProduct product) {
        return new Recorded(new RecordedWork.Product(product), product.bytes());
    }

    /** What cuDNN 9.24 asks for on an H200, as its plans say (CudnnPlansTest), and dy·y of each query. */
    @Override
    public OptionalLong attentionBytes(CudaAttention a) {
        if (!cudnn) {
            return OptionalLong.empty();
        }
        if (!a.isBackward()) {
            return OptionalLong.of(ALIGNMENT);
        }
        Shape s = a.shape();
        long heads = (long) s.batch() * s.heads();
        long scores = 2 * heads * Math.ceilDiv(s.queries(), 64) * 64 * Math.ceilDiv(s.keys(), 128) * 128;
        long grouped = s.heads() == s.keyHeads() ? 0 : 2 * 2 * heads * s.keys() * s.size();
        return OptionalLong.of(scores + grouped + ALIGNMENT + Float.BYTES * a.rows());
    }

    @Override
    public Work attention(CudaAttention attention, long workspace) {
        return new Recorded(new RecordedWork.Attention(attention), attention.bytes());
    }

    @Override
    public Work copy(long from, long to, long bytes) {
        return transfer("cuMemcpyDtoDAsync", 2 * bytes);
    }

    @Override
    public Work upload(MemorySegment from, long to) {
        return transfer("cuMemcpyHtoDAsync", from.byteSize());
    }

    @Override
    public Work download(long from, MemorySegment to) {
        return transfer("cuMemcpyDtoHAsync", to.byteSize());
    }

    @Override
    public Work upload(Lane lane, MemorySegment from, long to) {
        return upload(from, to);
    }

    @Override
    public Work download(Lane lane, long from, MemorySegment to) {
        return download(from, to);
    }

    @Override
    public Signal signal(Lane setter, Lane waiter) {
        return new Signal(transfer("cuEventRecord", 0), transfer("cuStreamWaitEvent", 0));
    }

    @Override
    public Work zero(long at, long bytes) {
        return transfer(
                at % Integer.BYTES == 0 && bytes % Integer.BYTES == 0 ? "cuMemsetD32Async" : "cuMemsetD8Async", bytes);
    }

    @Override
    public Work graph(List<Work> inner) {
        return new Work() {
            @Override
            public void run() {
                boolean outer = inGraph;
                inGraph = true;
                inner.forEach(Work::run);
                inGraph = outer;
                graphs += recording ? 1 : 0;
            }

            @Override
            public String name() {
                return "graph of " + inner.size();
            }

            @Override
            public long bytes() {
                return inner.stream().mapToLong(Work::bytes).sum();
            }
        };
    }

    /** Nothing takes time here. */
    @Override
    public double microseconds(Work work, int runs) {
        return 0;
    }

    @Override
    public Nccl nccl() {
        throw new IllegalStateException("one GPU is recorded");
    }

    @Override
    public long stream() {
        return 0;
    }

    @Override
    public void close() {
        pinned.close();
    }
}
