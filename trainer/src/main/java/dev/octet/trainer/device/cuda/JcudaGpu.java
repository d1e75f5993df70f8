package dev.octet.trainer.device.cuda;

import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.CudaAttention;
import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream.Grid;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.function.IntSupplier;
import jcuda.driver.CUevent;
import jcuda.driver.CUevent_flags;
import jcuda.driver.JCudaDriver;
import org.jspecify.annotations.Nullable;

/** A GPU through jcuda: memory, copies, kernels and graphs by the driver, products by cublasLt. */
final class JcudaGpu implements Gpu {
    /** Workspace of product algorithms: NVIDIA's recommendation for Hopper, and sufficient for other GPUs. */
    private static final long WORKSPACE_BYTES = 32L << 20;

    /** Size of each of the staging buffers for copies. */
    private static final long STAGING_BYTES = 8L << 20;

    private static final long MIB = 1L << 20;

    /** Runs of a product per timing. */
    private static final int TIMED_RUNS = 5;

    /** Work after which an idle GPU has its clock under load, and idleness after which it has it no longer. */
    private static final double WARM_MICROS = 100_000;

    private static final long COLD_NANOS = 200_000_000;

    private final GpuInfo info;
    private final GpuContext context;
    private final LoadedKernels kernels;
    private final Map<Long, Long> allocated = new LinkedHashMap<>();
    private final List<HostAddress> pinned = new ArrayList<>();
    private final Staging staging;
    private final Products products;
    private final @Nullable Cudnn cudnn;
    /** Made when attention is first asked for. */
    private @Nullable AttentionPlans attention;

    private long cudnnHandle;

    /**
     * Components of a GPU.
     *
     * @param cudnn null where Octet's kernels compute all attention
     */
    record Parts(
            GpuInfo info,
            GpuContext context,
            Kernels kernels,
            int mostSharedBytes,
            CublasLt lt,
            @Nullable Cudnn cudnn,
            GpuClock clock,
            GpuOptions options) {}

    /** Takes ownership of the context. */
    JcudaGpu(Parts parts) {
        this.info = parts.info();
        this.context = parts.context();
        this.cudnn = parts.cudnn();
        this.kernels = new LoadedKernels(context, parts.kernels(), parts.mostSharedBytes());
        this.staging = new Staging(context, pinned(STAGING_BYTES), pinned(STAGING_BYTES));
        CublasLt.Place place = new CublasLt.Place(
                allocate(WORKSPACE_BYTES, "the workspace of matrix products"),
                WORKSPACE_BYTES,
                context.stream().handle());
        this.products = new Products(
                context,
                parts.lt(),
                place,
                info,
                parts.options(),
                new AlgorithmChoices(
                        parts.options().cache(), info.name(), parts.lt().versionText()),
                new Timing(parts.clock()));
    }

    @Override
    public GpuInfo info() {
        return info;
    }

    @Override
    public long freeBytes() {
        long[] free = {0};
        long[] total = {0};
        context.enter();
        context.check(JCudaDriver.cuMemGetInfo(free, total), "cuMemGetInfo");
        return free[0];
    }

    @Override
    public long allocate(long bytes, String what) {
        DeviceAddress address = new DeviceAddress();
        context.enter();
        int code = JCudaDriver.cuMemAlloc(address, Math.max(1, bytes));
        if (code == DriverErrors.OUT_OF_MEMORY) {
            throw new UnavailableException(
                    what + " takes " + mib(bytes) + " of the GPU's memory, but only " + mib(freeBytes()) + " of "
                            + mib(info.totalBytes()) + " are free",
                    place(),
                    "use smaller micro-batches or shorter sequences, or end other processes on the GPU (nvidia-smi)");
        }
        context.check(code, "cuMemAlloc of " + mib(bytes) + " for " + what);
        allocated.put(address.address(), bytes);
        fill(address.address(), bytes).run();
        return address.address();
    }

    private String place() {
        return "cuda:" + info.ordinal() + ", " + info.name();
    }

    private static String mib(long bytes) {
        return Math.ceilDiv(bytes, MIB) + " MiB";
    }

    @Override
    public void release(long address) {
        if (allocated.remove(address) == null) {
            throw new IllegalArgumentException("not allocated here: " + address);
        }
        if (!context.isLost()) {
            context.enter();
            context.check(JCudaDriver.cuMemFree(DeviceAddress.of(address)), "cuMemFree");
        }
    }

    @Override
    public MemorySegment pinned(long bytes) {
        HostAddress address = new HostAddress();
        context.enter();
        long size = Math.max(1, bytes);
        context.check(JCudaDriver.cuMemAllocHost(address, size), "cuMemAllocHost of " + mib(bytes));
        pinned.add(address);
        return MemorySegment.ofAddress(address.address())
                .reinterpret(size)
                .fill((byte) 0)
                .asSlice(0, bytes);
    }

    @Override
    public void write(long to, MemorySegment from) {
        staging.write(to, from);
    }

    @Override
    public void read(long from, MemorySegment to) {
        staging.read(from, to);
    }

    @Override
    public Nccl nccl() {
        return Nccl.of(CudaLibraries.ofSystem().find(CudaLibrary.NCCL).orThrow());
    }

    @Override
    public long stream() {
        return context.stream().handle();
    }

    @Override
    public void synchronize() {
        context.synchronize();
    }

    @Override
    public Work launch(CudaSource source, String kernel, Grid grid, List<Object> arguments) {
        return new Launch(context, kernels.function(source, kernel, grid), kernel, grid, arguments);
    }

    @Override
    public void prepare(Collection<CudaSource> sources) {
        kernels.prepare(sources);
    }

    @Override
    public Work product(CudaProduct product) {
        context.enter();
        return products.work(product);
    }

    @Override
    public boolean computes(CudaProduct product) {
        context.enter();
        return products.computes(product);
    }

    @Override
    public OptionalLong attentionBytes(CudaAttention of) {
        return cudnn == null ? OptionalLong.empty() : plans(cudnn).workspaceBytes(of);
    }

    @Override
    public Work attention(CudaAttention of, long workspace) {
        if (cudnn == null) {
            return Gpu.super.attention(of, workspace);
        }
        return plans(cudnn).work(of, workspace, context::enter);
    }

    private AttentionPlans plans(Cudnn library) {
        context.enter();
        AttentionPlans plans = attention;
        if (plans == null) {
            cudnnHandle = library.open(context.stream().handle());
            plans = new AttentionPlans(library, new AttentionPlans.Target.Handle(cudnnHandle), info.capability());
            attention = plans;
        }
        return plans;
    }

    @Override
    public Work copy(long from, long to, long bytes) {
        return new Transfer(
                context,
                "cuMemcpyDtoDAsync",
                2 * bytes,
                () -> JCudaDriver.cuMemcpyDtoDAsync(
                        DeviceAddress.of(to), DeviceAddress.of(from), bytes, context.stream()));
    }

    @Override
    public Work upload(MemorySegment from, long to) {
        return upload(Lane.COMPUTE, from, to);
    }

    @Override
    public Work upload(Lane lane, MemorySegment from, long to) {
        HostAddress host = HostAddress.of(from);
        return new Transfer(
                context,
                "cuMemcpyHtoDAsync",
                from.byteSize(),
                () -> JCudaDriver.cuMemcpyHtoDAsync(DeviceAddress.of(to), host, from.byteSize(), context.stream(lane)));
    }

    @Override
    public Work download(long from, MemorySegment to) {
        return download(Lane.COMPUTE, from, to);
    }

    @Override
    public Signal signal(Lane setter, Lane waiter) {
        CUevent event = new CUevent();
        context.enter();
        context.check(JCudaDriver.cuEventCreate(event, CUevent_flags.CU_EVENT_DISABLE_TIMING), "cuEventCreate");
        return new Signal(
                new EventWork(
                        context,
                        "cuEventRecord",
                        () -> JCudaDriver.cuEventRecord(event, context.stream(setter)),
                        () -> JCudaDriver.cuEventDestroy(event)),
                new EventWork(
                        context,
                        "cuStreamWaitEvent",
                        () -> JCudaDriver.cuStreamWaitEvent(context.stream(waiter), event, 0),
                        () -> 0));
    }

    /** Setting an event, which it owns, or waiting for one. */
    private record EventWork(GpuContext context, String name, IntSupplier call, IntSupplier end) implements Work {
        @Override
        public void run() {
            context.enter();
            context.check(call.getAsInt(), name);
        }

        @Override
        public void close() {
            if (!context.isLost()) {
                context.enter();
                context.check(end.getAsInt(), "cuEventDestroy");
            }
        }
    }

    @Override
    public Work download(Lane lane, long from, MemorySegment to) {
        HostAddress host = HostAddress.of(to);
        return new Transfer(
                context,
                "cuMemcpyDtoHAsync",
                to.byteSize(),
                () -> JCudaDriver.cuMemcpyDtoHAsync(host, DeviceAddress.of(from), to.byteSize(), context.stream(lane)));
    }

    @Override
    public Work zero(long at, long bytes) {
        return fill(at, bytes);
    }

    private Transfer fill(long at, long bytes) {
        boolean words = at % Integer.BYTES == 0 && bytes % Integer.BYTES == 0;
        return words
                ? new Transfer(
                        context,
                        "cuMemsetD32Async",
                        bytes,
                        () -> JCudaDriver.cuMemsetD32Async(
                                DeviceAddress.of(at), 0, bytes / Integer.BYTES, context.stream()))
                : new Transfer(
                        context,
                        "cuMemsetD8Async",
                        bytes,
                        () -> JCudaDriver.cuMemsetD8Async(DeviceAddress.of(at), (byte) 0, bytes, context.stream()));
    }

    @Override
    public Work graph(List<Work> works) {
        return GraphWork.of(context, works);
    }

    @Override
    public double microseconds(Work work, int runs) {
        CUevent start = event();
        CUevent end = event();
        try {
            return microseconds(work::run, runs, start, end);
        } finally {
            context.check(JCudaDriver.cuEventDestroy(start), "cuEventDestroy");
            context.check(JCudaDriver.cuEventDestroy(end), "cuEventDestroy");
        }
    }

    private double microseconds(Runnable work, int runs, CUevent start, CUevent end) {
        context.check(JCudaDriver.cuEventRecord(start, context.stream()), "cuEventRecord");
        for (int i = 0; i < runs; i++) {
            work.run();
        }
        context.check(JCudaDriver.cuEventRecord(end, context.stream()), "cuEventRecord");
        context.check(JCudaDriver.cuEventSynchronize(end), "cuEventSynchronize");
        float[] milliseconds = {0};
        context.check(JCudaDriver.cuEventElapsedTime(milliseconds, start, end), "cuEventElapsedTime");
        return milliseconds[0] * 1000.0 / runs;
    }

    private CUevent event() {
        CUevent event = new CUevent();
        context.enter();
        context.check(JCudaDriver.cuEventCreate(event, CUevent_flags.CU_EVENT_DEFAULT), "cuEventCreate");
        return event;
    }

    @Override
    public void close() {
        if (!context.isLost()) {
            context.synchronize();
            products.close();
            if (cudnn != null && attention != null) {
                attention.close();
                cudnn.close(cudnnHandle);
            }
            staging.close();
            kernels.close();
            for (HostAddress address : pinned) {
                context.check(JCudaDriver.cuMemFreeHost(address), "cuMemFreeHost");
            }
            List.copyOf(allocated.keySet()).forEach(this::release);
        }
        context.close();
    }

    /** Times products with events on the stream. */
    private final class Timing implements Products.Bench {
        private final GpuClock clock;
        private long lastWork = System.nanoTime() - COLD_NANOS;

        Timing(GpuClock clock) {
            this.clock = clock;
        }

        @Override
        public OptionalLong scratch(long bytes) {
            DeviceAddress address = new DeviceAddress();
            context.enter();
            int code = JCudaDriver.cuMemAlloc(address, bytes);
            if (code == DriverErrors.OUT_OF_MEMORY) {
                return OptionalLong.empty();
            }
            context.check(code, "cuMemAlloc");
            return OptionalLong.of(address.address());
        }

        @Override
        public OptionalLong noise(DType type, long bytes) {
            OptionalLong address = scratch(bytes);
            if (address.isPresent()) {
                MemorySegment pattern = NoisePattern.of(type);
                long done = Math.min(bytes, pattern.byteSize());
                write(address.getAsLong(), pattern.asSlice(0, done));
                while (done < bytes) {
                    long more = Math.min(done, bytes - done);
                    copy(address.getAsLong(), address.getAsLong() + done, more).run();
                    done += more;
                }
            }
            return address;
        }

        @Override
        public void release(long address) {
            context.synchronize();
            context.check(JCudaDriver.cuMemFree(DeviceAddress.of(address)), "cuMemFree");
        }

        @Override
        public void warm(Runnable work) {
            if (System.nanoTime() - lastWork < COLD_NANOS) {
                return;
            }
            work.run(); // loads the kernel
            double micros = 0;
            for (int runs = 1; micros < WARM_MICROS; runs = Math.min(2 * runs, 1 << 10)) {
                micros += Math.max(1, time(work, runs)) * runs;
            }
        }

        @Override
        public double microseconds(Runnable work) {
            return time(work, TIMED_RUNS);
        }

        private double time(Runnable work, int runs) {
            CUevent start = event();
            CUevent end = event();
            try {
                return JcudaGpu.this.microseconds(work, runs, start, end);
            } finally {
                lastWork = System.nanoTime();
                context.check(JCudaDriver.cuEventDestroy(start), "cuEventDestroy");
                context.check(JCudaDriver.cuEventDestroy(end), "cuEventDestroy");
            }
        }

        @Override
        public int clock() {
            return clock.megahertz();
        }
    }
}
