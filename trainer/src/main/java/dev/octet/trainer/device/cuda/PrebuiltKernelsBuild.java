package dev.octet.trainer.device.cuda;

import dev.octet.trainer.kernel.CudaSource;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;

/**
 * Packaging step: compiles every source to PTX in the classes folder. Needs no GPU; without a compiler it logs so and the package has no
 * prebuilt kernels.
 */
public final class PrebuiltKernelsBuild {
    private static final System.Logger LOG = System.getLogger(PrebuiltKernelsBuild.class.getName());

    private PrebuiltKernelsBuild() {}

    /**
     * Runs the step.
     *
     * @param arguments the classes folder
     * @throws IOException when the folder cannot be written
     */
    public static void main(String... arguments) throws IOException {
        if (arguments.length != 1) {
            throw new IllegalArgumentException("expected one argument: the classes folder");
        }
        Optional<KernelCompiler> compiler =
                KernelCompilers.of(CudaLibraries.ANY_MAJOR).compiler();
        if (compiler.isEmpty()) {
            LOG.log(
                    System.Logger.Level.WARNING,
                    "no prebuilt kernels: neither libnvrtc nor nvcc was found (docs/cuda.md lists the places"
                            + " searched)");
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
