package dev.octet.trainer.device.cuda;

import dev.octet.formats.error.UnavailableException;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * What was found for training on NVIDIA GPUs.
 *
 * @param gpus that the driver shows, whether or not Octet can use them; without versions
 * @param parts driver, jcuda, cublasLt, compiler; jcuda is missing where there is no driver to load it for
 */
public record GpuReport(List<GpuInfo> gpus, List<Part> parts) {
    public GpuReport {
        gpus = List.copyOf(gpus);
        parts = List.copyOf(parts);
    }

    /** Whether one of the GPUs can train. */
    public boolean usable() {
        return gpus.stream().anyMatch(g -> g.capability() >= Gpus.OLDEST_CAPABILITY)
                && parts.stream().allMatch(Part::found);
    }

    /**
     * One thing that is needed.
     *
     * @param version null when it was not found
     * @param where its file, or every path tried
     * @param problem what is wrong; null when it was found
     * @param fix what to do about it; null when it was found
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

        /** Whether it is there. */
        public boolean found() {
            return problem == null;
        }
    }
}
