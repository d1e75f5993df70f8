package dev.octet.trainer.device.cuda;

import dev.octet.formats.file.CacheFolder;
import java.nio.file.Path;

/**
 * Options of a GPU device.
 *
 * @param allowTf32 whether F32 products may round their operands to TF32 (10 bits of mantissa), which is many times faster
 * @param timedAlgorithms whether to time the algorithms that the library proposes for a product and choose the fastest; otherwise its first
 *     proposal is used
 * @param attentionByCudnn whether cuDNN computes attention where it can
 * @param cache folder for compiled kernels and measured algorithms
 */
public record GpuOptions(boolean allowTf32, boolean timedAlgorithms, boolean attentionByCudnn, Path cache) {
    /**
     * Options from the system properties {@code octet.cuda.tf32} (default false), {@code octet.cuda.algorithms} (timed or first) and
     * {@code octet.cuda.attention} (octet or cudnn), with the user's cache.
     */
    public static GpuOptions ofSystem() {
        return new GpuOptions(
                Boolean.getBoolean("octet.cuda.tf32"),
                !System.getProperty("octet.cuda.algorithms", "timed").equals("first"),
                System.getProperty("octet.cuda.attention", "octet").equals("cudnn"),
                CacheFolder.path());
    }
}
