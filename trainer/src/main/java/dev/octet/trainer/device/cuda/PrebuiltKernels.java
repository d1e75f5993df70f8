package dev.octet.trainer.device.cuda;

import dev.octet.trainer.kernel.CudaSource;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Optional;

/**
 * PTX compiled when Octet was packaged ({@link PrebuiltKernelsBuild}), for machines without a CUDA compiler. The resources are next to this
 * class, named by the digest of their source, so PTX is never used for a different source.
 */
final class PrebuiltKernels {
    /** Target capabilities: the first with FP8, and Hopper, whose PTX later GPUs run. */
    static final List<Integer> CAPABILITIES = List.of(89, 90);

    /** Folder of the resources. */
    static final String FOLDER = "kernels/";

    /** Resource with the compiler's version; exists only if there are prebuilt kernels. */
    static final String VERSION = "version.txt";

    private PrebuiltKernels() {}

    /** Resource name for a source. */
    static String name(CudaSource source, int capability) {
        return KernelCache.stem(source) + "-" + KernelCache.identity(source).substring(0, 32) + "."
                + new ComputeCapability(capability, true).option() + ".ptx";
    }

    /** Version of the compiler; empty when there are no prebuilt kernels. */
    static Optional<String> version() {
        return read(VERSION).map(b -> new String(b, StandardCharsets.UTF_8).strip());
    }

    /** PTX of a source for the newest target that a GPU of {@code capability} runs. */
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
