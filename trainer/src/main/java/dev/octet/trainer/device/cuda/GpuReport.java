package dev.octet.trainer.device.cuda;

import dev.octet.formats.error.UnavailableException;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Result of a search for GPUs and CUDA.
 *
 * @param gpus all GPUs that the driver reports, supported or not; without versions
 * @param parts driver, jcuda, cublasLt, compiler; jcuda is missing when there is no driver; cuDNN where it is found or asked for
 */
public record GpuReport(List<GpuInfo> gpus, List<Part> parts) {
    public GpuReport {
        gpus = List.copyOf(gpus);
        parts = List.copyOf(parts);
    }

    /** Whether at least one GPU can train. */
    public boolean usable() {
        return gpus.stream().anyMatch(g -> g.capability() >= Gpus.OLDEST_CAPABILITY)
                && parts.stream().allMatch(Part::found);
    }

    /**
     * A required component.
     *
     * @param version null when not found
     * @param where path of its file, or every path tried
     * @param problem null when found
     * @param fix advice; null when found
     */
    public record Part(
            String name,
            @Nullable String version,
            String where,
            @Nullable String problem,
            @Nullable String fix) {
        static Part found(String name, String version, String where) {
            return new Part(name, version, where, null, null);
        }

        static Part absent(String name, UnavailableException why) {
            return new Part(name, null, why.where(), why.what(), why.fix());
        }

        /** Whether the component was found. */
        public boolean found() {
            return problem == null;
        }
    }
}
