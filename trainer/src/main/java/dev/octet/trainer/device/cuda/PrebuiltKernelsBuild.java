package dev.octet.trainer.device.cuda;

import dev.octet.trainer.kernel.CudaSource;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;

/**
 * A step of packaging: compiles every source to PTX into the folder of classes. It needs no GPU; where there is no compiler it says so and
 * leaves the package without.
 */
public final class PrebuiltKernelsBuild {
    private static final System.Logger LOG = System.getLogger(PrebuiltKernelsBuild.class.getName());

    private PrebuiltKernelsBuild() {}

    /**
     * Runs the step.
     *
     * @param arguments the folder of classes
     * @throws IOException when it cannot be written
     */
    public static void main(String... arguments) throws IOException {
        if (arguments.length != 1) {
            throw new IllegalArgumentException("one argument is needed: the folder of classes");
        }
        Optional<KernelCompiler> compiler =
                KernelCompilers.of(CudaLibraries.ANY_MAJOR).compiler();
        if (compiler.isEmpty()) {
            LOG.log(
                    System.Logger.Level.WARNING,
                    "no prebuilt kernels: neither libnvrtc nor nvcc was found (docs/cuda.md says where they are looked"
                            + " for)");
            return;
        }
        build(compiler.get(), CudaSources.all(), Path.of(arguments[0]));
    }

    static void build(KernelCompiler compiler, List<CudaSource> sources, Path classes) throws IOException {
        Path folder = classes.resolve(
                        PrebuiltKernelsBuild.class.getPackageName().replace('.', '/'))
                .resolve(PrebuiltKernels.FOLDER);
        Files.createDirectories(folder);
        for (CudaSource source : sources) {
            for (int capability : PrebuiltKernels.CAPABILITIES) {
                Path file = folder.resolve(PrebuiltKernels.name(source, capability));
                if (!Files.exists(file)) {
                    try {
                        Files.write(file, compiler.compile(source, new ComputeCapability(capability, true)));
                    } catch (CompileException e) {
                        throw e.unavailable();
                    }
                }
            }
        }
        Files.writeString(folder.resolve(PrebuiltKernels.VERSION), compiler.version() + "\n");
        LOG.log(System.Logger.Level.INFO, "{0} sources compiled to PTX by {1}", sources.size(), compiler.version());
    }
}
