package dev.octet.trainer.device.cuda;

import dev.octet.formats.error.UnavailableException;
import dev.octet.trainer.kernel.CudaSource;
import dev.octet.trainer.kernel.CudaStream.Grid;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import jcuda.driver.CUfunction;
import jcuda.driver.CUfunction_attribute;
import jcuda.driver.CUmodule;
import jcuda.driver.JCudaDriver;

/** Kernels in GPU memory; each source is loaded once. */
final class LoadedKernels implements AutoCloseable {
    /**
     * Dynamic shared memory that needs no opt-in. A block has 48 KiB without it (CUDA programming guide, 16.8.3), static arrays included, for
     * which 16 KiB are left.
     */
    static final int PLAIN_SHARED_BYTES = 32 << 10;

    private final GpuContext context;
    private final Kernels kernels;
    private final int mostSharedBytes;
    private final Map<CudaSource, CUmodule> modules = new HashMap<>();
    private final Map<Name, CUfunction> functions = new HashMap<>();
    private final Map<Name, Integer> shared = new HashMap<>();

    private record Name(CudaSource source, String kernel) {}

    /**
     * Kernels of a context.
     *
     * @param mostSharedBytes shared memory limit per block on this GPU
     */
    LoadedKernels(GpuContext context, Kernels kernels, int mostSharedBytes) {
        this.context = context;
        this.kernels = kernels;
        this.mostSharedBytes = mostSharedBytes;
    }

    /**
     * A kernel, opted in to as much shared memory as the grid needs.
     *
     * @throws UnavailableException when it does not compile or load
     */
    CUfunction function(CudaSource source, String kernel, Grid grid) {
        context.enter();
        Name name = new Name(source, kernel);
        CUfunction function = functions.computeIfAbsent(name, this::find);
        if (grid.sharedBytes() > Math.max(PLAIN_SHARED_BYTES, shared.getOrDefault(name, 0))) {
            if (grid.sharedBytes() > mostSharedBytes) {
                throw new UnavailableException(
                        kernel + " needs " + grid.sharedBytes()
                                + " bytes of shared memory, but a block of this GPU has " + mostSharedBytes,
                        source.toString(),
                        "use a GPU with more shared memory, or --device cpu");
            }
            context.check(
                    JCudaDriver.cuFuncSetAttribute(
                            function,
                            CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                            grid.sharedBytes()),
                    "cuFuncSetAttribute of " + kernel);
            shared.put(name, grid.sharedBytes());
        }
        return function;
    }

    /** Compiles the sources that are neither loaded nor in the cache, several at a time. */
    void prepare(Collection<CudaSource> sources) {
        kernels.prepare(sources.stream().filter(s -> !modules.containsKey(s)).toList());
    }

    private CUfunction find(Name name) {
        CUmodule module = modules.computeIfAbsent(name.source(), this::load);
        CUfunction function = new CUfunction();
        int code = JCudaDriver.cuModuleGetFunction(function, module, name.kernel());
        if (code == DriverErrors.NOT_FOUND) {
            throw new IllegalArgumentException("no kernel " + name.kernel() + " in " + name.source());
        }
        context.check(code, "cuModuleGetFunction of " + name.kernel());
        return function;
    }

    private CUmodule load(CudaSource source) {
        CUmodule module = new CUmodule();
        context.check(
                JCudaDriver.cuModuleLoadData(module, kernels.load(source)),
                "cuModuleLoadData of " + source + " (" + kernels.version() + ")");
        return module;
    }

    @Override
    public void close() {
        context.enter();
        for (CUmodule module : modules.values()) {
            context.check(JCudaDriver.cuModuleUnload(module), "cuModuleUnload");
        }
    }
}
