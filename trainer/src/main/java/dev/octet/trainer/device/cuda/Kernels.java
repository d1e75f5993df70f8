package dev.octet.trainer.device.cuda;

import dev.octet.formats.error.UnavailableException;
import dev.octet.trainer.kernel.CudaSource;
import java.util.Arrays;
import java.util.Optional;

/** Compiled kernels for one GPU: from the cache, a compiler, or prebuilt PTX. */
final class Kernels {
    private final KernelCompilers compilers;
    private final KernelCache cache;
    private final int capability;

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
