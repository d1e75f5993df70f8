package dev.octet.trainer.device.cuda;

import dev.octet.formats.file.CacheFolder;
import java.nio.file.Path;

/**
 * How a GPU is used.
 *
 * @param allowTf32 whether products of F32 may round their operands to TF32 (10 bits of mantissa), many times as fast
 * @param timedAlgorithms whether the algorithm of a product is the fastest of those the library proposes, measured once; its first proposal
 *     otherwise
 * @param cache folder of compiled kernels and measured algorithms
 */
public record GpuOptions(boolean allowTf32, boolean timedAlgorithms, Path cache) {
    /** What the system properties {@code octet.cuda.tf32} (false) and {@code octet.cuda.algorithms} (timed, or first) say, the user's cache. */
    public static GpuOptions ofSystem() {
        return new GpuOptions(
                Boolean.getBoolean("octet.cuda.tf32"),
                !System.getProperty("octet.cuda.algorithms", "timed").equals("first"),
                CacheFolder.path());
    }
}
