package dev.octet.trainer.device.cuda;

import dev.octet.formats.error.UnavailableException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import jcuda.driver.CUdevice;
import jcuda.driver.CUdevice_attribute;

/** The GPUs of this machine. */
public final class Gpus {
    /** Lowest capability that Octet's kernels support: Ampere introduced asynchronous copies and BF16. */
    static final int OLDEST_CAPABILITY = 80;

    private Gpus() {}

    /** Searches for a GPU by its number, from 0, with {@link GpuOptions#ofSystem}. */
    public static GpuSearch find(int ordinal) {
        return find(ordinal, GpuOptions.ofSystem());
    }

    /** Searches for a GPU by its number, from 0. */
    public static GpuSearch find(int ordinal, GpuOptions options) {
        return find(ordinal, options, System.getenv());
    }

    static GpuSearch find(int ordinal, GpuOptions options, Map<String, String> environment) {
        try {
            return new GpuSearch.Ready(open(ordinal, options, environment));
        } catch (UnavailableException e) {
            return GpuSearch.Unfit.of(e);
        }
    }

    private static Gpu open(int ordinal, GpuOptions options, Map<String, String> environment) {
        CudaLibraries libraries = CudaLibraries.of(environment);
        Driver driver = Driver.start(libraries);
        int count = driver.count();
        if (ordinal >= count) {
            throw new UnavailableException(
                    count == 0 ? "there is no GPU" : "there is no GPU " + ordinal + ", the last one is " + (count - 1),
                    "cuda:" + ordinal + ", driver " + driver.versionText(),
                    "check nvidia-smi and CUDA_VISIBLE_DEVICES, or use --device cpu");
        }
        GpuInfo bare = driver.info(ordinal, "");
        String place = "cuda:" + ordinal + ", " + bare.name();
        if (bare.capability() < OLDEST_CAPABILITY) {
            throw new UnavailableException(
                    "compute capability " + bare.capabilityText() + " is too low: Octet's kernels need 8.0, FP8 8.9",
                    place,
                    "use a GPU of the generations Ampere, Ada (FP8), Hopper (FP8) or later, or --device cpu");
        }
        CublasLt lt = CublasLt.of(
                libraries.find(CudaLibrary.CUBLAS_LT, driver.major()).orThrow());
        Cudnn cudnn = options.attentionByCudnn()
                ? Cudnn.of(libraries.find(CudaLibrary.CUDNN).orThrow())
                : null;
        KernelCompilers compilers = KernelCompilers.of(libraries, environment, driver.major());
        if (compilers.compiler().isEmpty() && PrebuiltKernels.version().isEmpty()) {
            throw new UnavailableException(
                    "kernels cannot be compiled: neither libnvrtc nor nvcc was found, and this Octet has no prebuilt"
                            + " ones",
                    String.join("; ", compilers.tried()),
                    CudaLibrary.NVRTC.remedy());
        }
        Kernels kernels = new Kernels(compilers, new KernelCache(options.cache()), bare.capability());
        String versions = String.join(
                ", ",
                "driver " + driver.versionText(),
                "cublasLt " + lt.versionText() + (cudnn == null ? "" : ", cuDNN " + cudnn.versionText()),
                kernels.version(),
                "jcuda " + JcudaLibrary.VERSION);
        CUdevice device = driver.device(ordinal);
        int shared = driver.attribute(device, CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
        GpuContext context = new GpuContext(device, place);
        try {
            return new JcudaGpu(new JcudaGpu.Parts(
                    driver.info(ordinal, versions),
                    context,
                    kernels,
                    shared,
                    lt,
                    cudnn,
                    GpuClock.of(libraries, driver.busId(device)),
                    options));
        } catch (RuntimeException e) {
            context.close();
            throw e;
        }
    }

    /** Everything found of GPUs and CUDA, sufficient or not. */
    public static GpuReport report() {
        return report(System.getenv());
    }

    static GpuReport report(Map<String, String> environment) {
        CudaLibraries libraries = CudaLibraries.of(environment);
        List<GpuInfo> gpus = new ArrayList<>();
        List<GpuReport.Part> parts = new ArrayList<>();
        int major = CudaLibraries.ANY_MAJOR;
        try {
            Driver driver = Driver.start(libraries);
            parts.add(GpuReport.Part.found("driver", driver.versionText(), driver.path()));
            parts.add(GpuReport.Part.found("jcuda", JcudaLibrary.VERSION, "on the class path"));
            major = driver.major();
            for (int i = 0; i < driver.count(); i++) {
                gpus.add(driver.info(i, ""));
            }
        } catch (UnavailableException e) {
            parts.add(GpuReport.Part.absent("driver", e));
        }
        try {
            CublasLt lt =
                    CublasLt.of(libraries.find(CudaLibrary.CUBLAS_LT, major).orThrow());
            parts.add(GpuReport.Part.found("cublasLt", lt.versionText(), lt.path()));
        } catch (UnavailableException e) {
            parts.add(GpuReport.Part.absent("cublasLt", e));
        }
        parts.add(compilerPart(KernelCompilers.of(libraries, environment, major)));
        attentionPart(libraries).ifPresent(parts::add);
        return new GpuReport(gpus, parts);
    }

    /** cuDNN where it is there or asked for: without it Octet's kernels compute attention. */
    private static Optional<GpuReport.Part> attentionPart(CudaLibraries libraries) {
        try {
            Cudnn cudnn = Cudnn.of(libraries.find(CudaLibrary.CUDNN).orThrow());
            return Optional.of(GpuReport.Part.found("cuDNN", cudnn.versionText(), cudnn.path()));
        } catch (UnavailableException e) {
            return GpuOptions.ofSystem().attentionByCudnn()
                    ? Optional.of(GpuReport.Part.absent("cuDNN", e))
                    : Optional.empty();
        }
    }

    private static GpuReport.Part compilerPart(KernelCompilers compilers) {
        return compilers
                .compiler()
                .map(c -> GpuReport.Part.found("compiler", c.version(), compilers.place()))
                .or(() -> PrebuiltKernels.version()
                        .map(v -> GpuReport.Part.found("compiler", "none", "kernels prebuilt by " + v)))
                .orElseGet(() -> GpuReport.Part.absent(
                        "compiler",
                        new UnavailableException(
                                "neither libnvrtc nor nvcc was found",
                                String.join("; ", compilers.tried()),
                                CudaLibrary.NVRTC.remedy())));
    }
}
