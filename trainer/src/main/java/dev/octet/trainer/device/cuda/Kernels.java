package dev.octet.trainer.device.cuda;

import dev.octet.formats.error.UnavailableException;
import dev.octet.trainer.kernel.CudaSource;
import java.util.Arrays;
import java.util.Collection;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** Compiled kernels for one GPU: from the cache, a compiler, or prebuilt PTX. */
final class Kernels {
    private static final System.Logger LOG = System.getLogger(Kernels.class.getName());
    private static final int MOST_THREADS = 8;

    private final KernelCompilers compilers;
    private final KernelCache cache;
    private final int capability;
    /** Compiled ahead by {@link #prepare}, until loaded. */
    private final Map<CudaSource, byte[]> prepared = new ConcurrentHashMap<>();

    /**
     * Kernels for a GPU.
     *
     * @param capability 10 · major + minor
     */
    Kernels(KernelCompilers compilers, KernelCache cache, int capability) {
        this.compilers = compilers;
        this.cache = cache;
        this.capability = capability;
    }

    /** Name and version of the compiler, for logs. */
    String version() {
        return compilers
                .compiler()
                .map(KernelCompiler::version)
                .or(() -> PrebuiltKernels.version().map(v -> "kernels prebuilt by " + v))
                .orElse("no compiler");
    }

    /**
     * Machine code, or PTX with a terminating zero byte.
     *
     * @throws UnavailableException when the source does not compile, or there is neither a compiler nor prebuilt PTX of it
     */
    byte[] load(CudaSource source) {
        byte[] ready = prepared.remove(source);
        return ready == null ? make(source) : ready;
    }

    /** Compiles sources in threads, one for each processor and eight at most. What does not compile is left to {@link #load}. */
    void prepare(Collection<CudaSource> sources) {
        if (sources.size() < 2) {
            return;
        }
        int threads = Math.min(
                MOST_THREADS, Math.min(sources.size(), Runtime.getRuntime().availableProcessors()));
        try (ExecutorService pool = Executors.newFixedThreadPool(threads)) {
            for (CudaSource source : sources) {
                pool.execute(() -> {
                    try {
                        prepared.put(source, make(source));
                    } catch (UnavailableException e) {
                        LOG.log(System.Logger.Level.DEBUG, "{0} was not prepared: {1}", source, e.what());
                    }
                });
            }
        }
    }

    private byte[] make(CudaSource source) {
        Optional<KernelCompiler> compiler = compilers.compiler();
        Optional<ComputeCapability> architecture =
                compiler.flatMap(c -> ComputeCapability.of(capability, c.architectures()));
        if (compiler.isPresent() && architecture.isPresent()) {
            return compile(compiler.get(), source, architecture.get());
        }
        return PrebuiltKernels.find(source, capability)
                .map(Kernels::terminated)
                .orElseThrow(() -> new UnavailableException(
                        "kernel source " + source + " cannot be compiled: "
                                + compiler.map(c -> c.version() + " does not know GPUs of capability " + capability)
                                        .orElse("no compiler was found, and this Octet has no prebuilt PTX of it"),
                        compilers.place().isEmpty() ? String.join("; ", compilers.tried()) : compilers.place(),
                        CudaLibrary.NVRTC.remedy()));
    }

    private byte[] compile(KernelCompiler compiler, CudaSource source, ComputeCapability architecture) {
        try {
            byte[] made = cache.get(
                    KernelCache.name(source, compiler.version(), architecture),
                    () -> compiler.compile(source, architecture));
            return architecture.ptx() ? terminated(made) : made;
        } catch (CompileException e) {
            throw e.unavailable();
        }
    }

    /** Appends a zero byte: the driver reads PTX as a C string. */
    private static byte[] terminated(byte[] ptx) {
        return ptx.length > 0 && ptx[ptx.length - 1] == 0 ? ptx : Arrays.copyOf(ptx, ptx.length + 1);
    }
}
