package dev.octet.trainer.device.cuda;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.octet.formats.file.CacheFolder;
import dev.octet.trainer.device.Device;
import dev.octet.trainer.kernel.CudaAttention;
import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.op.GpuFusions;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.jspecify.annotations.Nullable;

/**
 * GPUs for tests. On this processor kernels are checked by every build; on a real GPU by tests tagged {@code gpu}, which {@code mvn verify
 * -Pgpu} runs. Where there is none, tests are skipped with the reason. With the system property {@code octet.kernels=gpu} what asks for this
 * processor gets the real GPU instead: so tests tagged {@code kernels} run there ({@code bench/gpu/run --kernels}).
 */
public final class TestGpus {
    private static @Nullable Gpu shared;

    private TestGpus() {}

    /** A GPU that stays open. */
    private static final class SharedGpu extends ForwardingGpu {
        SharedGpu(Gpu gpu) {
            super(gpu);
        }

        @Override
        public void close() {
            synchronize();
        }
    }

    /** A GPU that stays open when a test's operands close it. */
    public static Gpu open(Gpu gpu) {
        return new SharedGpu(gpu);
    }

    /** A GPU of capability 9.0 that is this processor. */
    public static Gpu host() {
        return host(90);
    }

    /** Whether {@link #host()} is this processor, whose sums of FP8 products are those of F32. */
    public static boolean inEmulation() {
        return !"gpu".equals(System.getProperty("octet.kernels"));
    }

    private static Gpu host(int capability) {
        if (!inEmulation()) {
            return withCapability(shared(), capability);
        }
        assumeTrue(HostGpu.absence().isEmpty(), () -> HostGpu.absence().orElseThrow());
        return new HostGpu(HostGpu.Order.FORWARD, capability);
    }

    /** As {@link #host()}, with cuDNN's interface for attention: {@link HostCudnn}, on a real GPU the library itself. */
    public static Gpu hostWithCudnn() {
        if (!inEmulation()) {
            return realWithCudnn();
        }
        assumeTrue(HostGpu.absence().isEmpty(), () -> HostGpu.absence().orElseThrow());
        return HostGpu.withCudnn(HostGpu.Order.FORWARD);
    }

    /** The GPU of this machine, with cuDNN for attention. */
    public static Gpu realWithCudnn() {
        GpuSearch found = Gpus.find(0, new GpuOptions(false, true, true, CacheFolder.path()));
        if (found instanceof GpuSearch.Unfit u) {
            assumeTrue(false, "no GPU with cuDNN: " + u.what() + " (" + u.where() + ")");
        }
        return found.orThrow();
    }

    /** A GPU that remembers the attention that its library is given. */
    public static Gpu rememberingAttention(Gpu gpu, List<CudaAttention> attentions) {
        return new ForwardingGpu(gpu) {
            @Override
            public Work attention(CudaAttention attention, long workspace) {
                attentions.add(attention);
                return gpu.attention(attention, workspace);
            }
        };
    }

    /** The device on {@link #host()}. */
    public static Device hostDevice() {
        return new CudaDevice(host());
    }

    /** The same, which does each step by itself: nothing is fused, shared or overwritten. */
    public static Device stepByStepDevice() {
        return new CudaDevice(host(), List.of());
    }

    /** This processor as a GPU, also where tests run on a real one. */
    static Device emulated() {
        assumeTrue(HostGpu.absence().isEmpty(), () -> HostGpu.absence().orElseThrow());
        return new CudaDevice(new HostGpu(HostGpu.Order.FORWARD));
    }

    /** As {@link #hostDevice()}; on a real GPU one with streams of its own, so that a thread may use it beside others. */
    public static Device ownDevice() {
        return inEmulation() ? hostDevice() : realDevice();
    }

    /** @param capability ten times the major number and the minor one; below 89 codes are widened */
    public static Device hostDevice(int capability) {
        return new CudaDevice(host(capability));
    }

    /** The device on a {@link LaggingGpu} on {@link #host()}, with windows of so many bytes for values of the host. */
    public static Device laggingDevice(long seed, long windowBytes) {
        Gpu gpu = inEmulation()
                ? new LaggingGpu(host(), seed, LaggingGpu.Waits.HONOURED)
                : host(); // which has lanes of its own
        return new CudaDevice(gpu, GpuFusions.ALL, windowBytes);
    }

    /** The same, but for signals: no lane waits for another. */
    public static Device unorderedDevice(long seed, long windowBytes) {
        return new CudaDevice(new LaggingGpu(host(), seed, LaggingGpu.Waits.FORGOTTEN), GpuFusions.ALL, windowBytes);
    }

    /** The GPU of this machine. */
    public static Gpu real() {
        GpuSearch found = Gpus.find(0);
        if (found instanceof GpuSearch.Unfit u) {
            assumeTrue(false, "no GPU: " + u.what() + " (" + u.where() + ")");
        }
        return found.orThrow();
    }

    /**
     * The GPU of this machine, one for all tests of this process: opening one takes longer than most of them. Closing it does nothing, the
     * memory it gave is the test's to release.
     */
    public static synchronized Gpu shared() {
        Gpu open = shared;
        if (open == null) {
            open = new SharedGpu(real());
            shared = open;
        }
        return open;
    }

    /** A GPU whose library has no algorithm for products of codes, as one may have none for a shape. */
    public static Gpu withoutCodes(Gpu gpu) {
        return new ForwardingGpu(gpu) {
            @Override
            public boolean computes(CudaProduct product) {
                return !product.isFp8() && gpu.computes(product);
            }

            @Override
            public Work product(CudaProduct product) {
                if (product.isFp8()) {
                    throw new AssertionError("asked for a product of codes: " + product);
                }
                return gpu.product(product);
            }
        };
    }

    /** A GPU whose library applies one scale to each operand, as those before cuBLAS 12.9. */
    public static Gpu withoutScalesPerVector(Gpu gpu) {
        return new ForwardingGpu(gpu) {
            @Override
            public boolean computes(CudaProduct product) {
                return product.scaleMode() == CudaProduct.ScaleMode.ONE && gpu.computes(product);
            }

            @Override
            public Work product(CudaProduct product) {
                if (product.scaleMode() != CudaProduct.ScaleMode.ONE) {
                    throw new AssertionError("asked for scales of vectors: " + product);
                }
                return gpu.product(product);
            }
        };
    }

    /** A GPU that says it is older than it is, where it is not of this capability. */
    private static Gpu withCapability(Gpu gpu, int capability) {
        return new ForwardingGpu(gpu) {
            @Override
            public GpuInfo info() {
                GpuInfo i = gpu.info();
                return new GpuInfo(
                        i.ordinal(),
                        i.name(),
                        Math.min(i.capability(), capability),
                        i.multiprocessors(),
                        i.totalBytes(),
                        i.versions());
            }
        };
    }

    /** A GPU that says it has so many multiprocessors. */
    public static Gpu withMultiprocessors(Gpu gpu, int count) {
        return new ForwardingGpu(gpu) {
            @Override
            public GpuInfo info() {
                GpuInfo i = gpu.info();
                return new GpuInfo(i.ordinal(), i.name(), i.capability(), count, i.totalBytes(), i.versions());
            }
        };
    }

    /** The device on {@link #host()}, which remembers the pinned memory that it takes and the graphs that it records: "pinned 4", "graph of 12". */
    public static Device remembering(List<String> kept) {
        return new CudaDevice(new ForwardingGpu(host()) {
            @Override
            public MemorySegment pinned(long bytes) {
                kept.add("pinned " + bytes);
                return super.pinned(bytes);
            }

            @Override
            public Work graph(List<Work> works) {
                kept.add("graph of " + works.size());
                return super.graph(works);
            }
        });
    }

    /** The device on {@link #host()}, which counts the copies within it that it prepares. */
    public static Device countingCopies(AtomicInteger count) {
        return new CudaDevice(new ForwardingGpu(host()) {
            @Override
            public Work copy(long from, long to, long bytes) {
                count.incrementAndGet();
                return super.copy(from, to, bytes);
            }
        });
    }

    /** A GPU that remembers the products that it prepares. */
    public static Gpu remembering(Gpu gpu, List<CudaProduct> products) {
        return new ForwardingGpu(gpu) {
            @Override
            public Work product(CudaProduct product) {
                products.add(product);
                return gpu.product(product);
            }
        };
    }

    /** A GPU that counts the products of codes that it prepares. */
    public static Gpu countingCodes(Gpu gpu, AtomicInteger count) {
        return new ForwardingGpu(gpu) {
            @Override
            public Work product(CudaProduct product) {
                if (product.isFp8()) {
                    count.incrementAndGet();
                }
                return gpu.product(product);
            }
        };
    }

    /** The device on {@link #real()}. */
    public static Device realDevice() {
        return new CudaDevice(real());
    }
}
