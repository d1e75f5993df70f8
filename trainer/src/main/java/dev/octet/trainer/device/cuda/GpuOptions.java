package dev.octet.trainer.device.cuda;

import dev.octet.formats.file.CacheFolder;
import java.nio.file.Path;

/**
 * Options of a GPU device.
 *
 * @param allowTf32 whether F32 products may round their operands to TF32 (10 bits of mantissa), which is many times faster
 * @param timedAlgorithms whether to time the algorithms that the library proposes for a product and choose the fastest; otherwise its first
 *     proposal is used
 * @param cache folder for compiled kernels and measured algorithms
 */
public record GpuOptions(boolean allowTf32, boolean timedAlgorithms, Path cache) {
    /**
     * Options from the system properties {@code octet.cuda.tf32} (default false) and {@code octet.cuda.algorithms} (timed or first), with
     * the user's cache.
     */
    public static GpuOptions ofSystem() {
        return new GpuOptions(
                Boolean.getBoolean("octet.cuda.tf32"),
                !System.getProperty("octet.cuda.algorithms", "timed").equals("first"),
                CacheFolder.path());
    }
}
