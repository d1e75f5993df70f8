package dev.octet.trainer.device.cuda;

import dev.octet.formats.error.UnavailableException;
import dev.octet.trainer.kernel.CudaAttention;
import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream.Grid;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import org.jspecify.annotations.Nullable;

/**
 * A GPU that is this processor: the very sources of the kernels, compiled with the system's C++ compiler, the threads of a block as fibers.
 * What is undefined on a GPU, or refused by its libraries, is an exception here: barriers that part of a block misses, bytes written outside
 * of an allocation, arguments of other types than the kernel's, products that cublasLt does not know. An address is that of native memory.
 *
 * <p>Two runs in different {@link Order}s must give the same bits: where they do not, blocks or threads depend on each other without a
 * barrier.
 */
public final class HostGpu implements Gpu {
    /**
     * In which blocks, warps and lanes run between two barriers. What a kernel must not read holds other bytes in the first than in others.
     *
     * @param seed 0: as they are counted, asynchronous copies as late as possible; 1: backwards, copies at once; others: mixed, copies at once
     */
    public record Order(int seed) {
        /** As they are counted. */
        public static final Order FORWARD = new Order(0);
        /** The last first. */
        public static final Order BACKWARD = new Order(1);
    }

    private static final long MEMORY_BYTES = 8L << 30;
    /** Odd and small, so that strides over a problem take several turns and end unevenly. */
    private static final int MULTIPROCESSORS = 3;

    private final HostCompiler compiler;
    private final Order order;
    private final HostCompiler.Flavour flavour;
    private final int capability;
    private final HostMemory memory;
    private final Arena pinned = Arena.ofShared();
    /** What computes attention in place of the kernels; null where they do. */
    private final @Nullable AttentionPlans attention;

    private final List<Work> attentions = new ArrayList<>();

    /** Where works go while a graph is captured. */
    private @Nullable List<HostWork> captured;

    /** The GPU of capability 9.0 with the order in which things run. */
    public HostGpu(Order order) {
        this(order, 90);
    }

    /**
     * @param capability ten times the major number and the minor one, as {@link GpuInfo#capability}
     * @throws UnavailableException when there is no compiler
     */
    public HostGpu(Order order, int capability) {
        this(order, capability, HostCompiler.Flavour.ofRun());
    }

    HostGpu(Order order, int capability, HostCompiler.Flavour flavour) {
        this(order, capability, flavour, false);
    }

    /** The GPU of capability 9.0 with a library that computes attention ({@link HostCudnn}). */
    static HostGpu withCudnn(Order order) {
        return new HostGpu(order, 90, HostCompiler.Flavour.ofRun(), true);
    }

    private HostGpu(Order order, int capability, HostCompiler.Flavour flavour, boolean cudnn) {
        this.flavour = flavour;
        this.compiler = HostCompiler.find()
                .orElseThrow(() ->
                        new UnavailableException(absence().orElseThrow(), "HostGpu", "skip the test by assumption"));
        this.order = order;
        this.memory = new HostMemory(MEMORY_BYTES, (byte) (order.seed() == 0 ? 0xA5 : 0x7E));
        this.capability = capability;
        this.attention = cudnn ? HostCudnn.plans(compiler) : null;
    }

    /** Why there can be none on this machine; empty when there can. Tests assume that it is empty. */
    public static Optional<String> absence() {
        return HostCompiler.absence();
    }

    @Override
    public GpuInfo info() {
        return new GpuInfo(0, "this processor", capability, MULTIPROCESSORS, MEMORY_BYTES, compiler.version());
    }

    @Override
    public long freeBytes() {
        return memory.free();
    }

    @Override
    public long allocate(long bytes, String what) {
        notCapturing("an allocation");
        return memory.allocate(bytes, what);
    }

    @Override
    public void release(long address) {
        notCapturing("a release");
        memory.release(address);
    }

    @Override
    public MemorySegment pinned(long bytes) {
        return pinned.allocate(bytes, 256);
    }

    @Override
    public void write(long to, MemorySegment from) {
        notCapturing("a write");
        memory.at(to, from.byteSize(), "write").copyFrom(from);
    }

    @Override
    public void read(long from, MemorySegment to) {
        notCapturing("a read");
        to.copyFrom(memory.at(from, to.byteSize(), "read"));
    }

    /** One among the threads of this process. */
    @Override
    public Nccl nccl() {
        return ThreadedNccl.of(compiler);
    }

    /** Work is done when it is queued. */
    @Override
    public long stream() {
        return 0;
    }

    @Override
    public void synchronize() {
        notCapturing("a synchronization");
    }

    @Override
    public Work launch(CudaSource source, String kernel, Grid grid, List<Object> arguments) {
        int most = capability >= 90 && capability < 120
                ? 227 << 10
                : capability == 80 || capability == 87 ? 163 << 10 : 99 << 10;
        if (grid.sharedBytes() > most) {
            throw new IllegalArgumentException(kernel + ": " + grid.sharedBytes()
                    + " bytes of shared memory; compute capability " + capability + " has " + most);
        }
        HostLibrary library = HostLibrary.of(compiler.compile(source, flavour), source);
        checkShared(kernel, library.sharedBytes(), grid.sharedBytes(), most);
        HostLibrary.Bound bound = library.bind(kernel, grid, arguments);
        return new HostWork(kernel, 0, () -> bound.run(order));
    }

    /**
     * Static arrays count with the dynamic bytes: towards the block's limit, and towards the 48 KiB that a launch has without opt-in.
     *
     * @param fixed bytes of the static arrays of all kernels of the source, an upper bound for one of them
     */
    private static void checkShared(String kernel, long fixed, int dynamic, int most) {
        long all = fixed + dynamic;
        if (dynamic > 0 && all > most) {
            throw new IllegalArgumentException(kernel + ": " + fixed + " bytes of static and " + dynamic
                    + " of dynamic shared memory, and a block has " + most);
        }
        if (dynamic > 0 && dynamic <= LoadedKernels.PLAIN_SHARED_BYTES && all > 48 << 10) {
            throw new IllegalArgumentException(kernel + ": " + fixed + " bytes of static and " + dynamic
                    + " of dynamic shared memory are more than 48 KiB, and a launch with so few dynamic bytes is not"
                    + " opted in");
        }
    }

    @Override
    public Work product(CudaProduct product) {
        HostProduct p = new HostProduct(product, memory, capability);
        return new HostWork(p.name(), p.bytes(), p::run);
    }

    @Override
    public OptionalLong attentionBytes(CudaAttention of) {
        return attention == null ? OptionalLong.empty() : attention.workspaceBytes(of);
    }

    @Override
    public Work attention(CudaAttention of, long workspace) {
        if (attention == null) {
            return Gpu.super.attention(of, workspace);
        }
        memory.at(workspace, attention.workspaceBytes(of).orElseThrow(), "workspace of attention");
        Work work = attention.work(of, workspace, () -> {});
        attentions.add(work);
        return new HostWork(work.name(), work.bytes(), work::run);
    }

    @Override
    public Work copy(long from, long to, long bytes) {
        memory.at(from, bytes, "copy");
        memory.at(to, bytes, "copy");
        return new HostWork(
                "copy", 2 * bytes, () -> memory.at(to, bytes, "copy").copyFrom(memory.at(from, bytes, "copy")));
    }

    @Override
    public Work upload(MemorySegment from, long to) {
        memory.at(to, from.byteSize(), "upload");
        return new HostWork(
                "upload",
                from.byteSize(),
                () -> memory.at(to, from.byteSize(), "upload").copyFrom(from));
    }

    @Override
    public Work download(long from, MemorySegment to) {
        memory.at(from, to.byteSize(), "download");
        return new HostWork("download", to.byteSize(), () -> to.copyFrom(memory.at(from, to.byteSize(), "download")));
    }

    /** All lanes run in the order in which work is put there. */
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
        return new Signal(new HostWork("set", 0, () -> {}), new HostWork("await", 0, () -> {}));
    }

    @Override
    public Work zero(long at, long bytes) {
        memory.at(at, bytes, "zero");
        return new HostWork("zero", bytes, () -> memory.at(at, bytes, "zero").fill((byte) 0));
    }

    @Override
    public Work graph(List<Work> works) {
        List<HostWork> kept = new ArrayList<>();
        notCapturing("the capture of another graph");
        captured = kept;
        try {
            works.forEach(Work::run);
        } finally {
            captured = null;
        }
        long bytes = kept.stream().mapToLong(HostWork::bytes).sum();
        return new HostWork("graph of " + kept.size(), bytes, () -> kept.forEach(HostWork::compute));
    }

    @Override
    public double microseconds(Work work, int runs) {
        notCapturing("a measurement");
        long start = System.nanoTime();
        for (int i = 0; i < runs; i++) {
            work.run();
        }
        return (System.nanoTime() - start) / 1e3 / runs;
    }

    @Override
    public void close() {
        try {
            memory.checkZones("some work");
        } finally {
            attentions.forEach(Work::close);
            if (attention != null) {
                attention.close();
            }
            memory.close();
            pinned.close();
        }
    }

    private void notCapturing(String what) {
        if (captured != null) {
            throw new IllegalStateException(what + " while a graph is captured");
        }
    }

    /** Runs at once, or goes into the graph that is captured. */
    private final class HostWork implements Work {
        private final String name;
        private final long bytes;
        private final Runnable computation;
        private boolean closed;

        HostWork(String name, long bytes, Runnable computation) {
            this.name = name;
            this.bytes = bytes;
            this.computation = computation;
        }

        @Override
        public void run() {
            if (captured != null) {
                captured.add(this);
            } else {
                compute();
            }
        }

        void compute() {
            if (closed) {
                throw new IllegalStateException(name + " is closed");
            }
            computation.run();
            memory.checkZones(name);
        }

        @Override
        public String name() {
            return name;
        }

        @Override
        public long bytes() {
            return bytes;
        }

        @Override
        public void close() {
            closed = true;
        }
    }
}
