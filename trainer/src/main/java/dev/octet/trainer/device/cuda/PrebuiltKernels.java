package dev.octet.trainer.device.cuda;

import dev.octet.trainer.kernel.CudaSource;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Optional;

/**
 * PTX that was compiled when Octet was packaged ({@link PrebuiltKernelsBuild}), for GPUs where no compiler is installed: resources next to
 * this class, named by the digest of what they were compiled from, so that none is ever used for another source.
 */
final class PrebuiltKernels {
    /** Capabilities it is compiled for: the first with FP8, and Hopper, whose PTX later GPUs run. */
    static final List<Integer> CAPABILITIES = List.of(89, 90);

    /** Folder of the resources. */
    static final String FOLDER = "kernels/";

    /** What says that there are any: the compiler's version. */
    static final String VERSION = "version.txt";

    private PrebuiltKernels() {}

    /** Name of the resource of a source. */
    static String name(CudaSource source, int capability) {
        return KernelCache.stem(source) + "-" + KernelCache.identity(source).substring(0, 32) + "."
                + new ComputeCapability(capability, true).option() + ".ptx";
    }

    /** The compiler they were made with; empty when there are none. */
    static Optional<String> version() {
        return read(VERSION).map(b -> new String(b, StandardCharsets.UTF_8).strip());
    }

    /** PTX of a source for the newest capability that a GPU of {@code capability} runs. */
    static Optional<byte[]> find(CudaSource source, int capability) {
        return CAPABILITIES.reversed().stream()
                .filter(c -> c <= capability)
                .flatMap(c -> read(name(source, c)).stream())
                .findFirst();
    }

    private static Optional<byte[]> read(String name) {
        try (InputStream in = PrebuiltKernels.class.getResourceAsStream(FOLDER + name)) {
            return in == null ? Optional.empty() : Optional.of(in.readAllBytes());
        } catch (IOException e) {
            throw new UncheckedIOException("resource " + FOLDER + name, e);
        }
    }
}
