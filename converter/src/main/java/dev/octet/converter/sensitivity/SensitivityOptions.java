package dev.octet.converter.sensitivity;

import dev.octet.converter.runtime.CalibrationOptions;

/**
 * How losses are measured; none of it changes a result beyond the order of sums.
 *
 * @param threads threads of ONNX Runtime
 * @param batchSize samples of a batch, fewer where their logits are large
 * @param progress called after each variant of the model has run
 */
public record SensitivityOptions(int threads, int batchSize, VariantProgress progress) {
    /** Hears how far a measurement is. */
    @FunctionalInterface
    public interface VariantProgress {
        /** {@code done} of {@code total} variants of the model have run. */
        void variants(long done, long total);
    }

    /** All cores, silent. */
    public static SensitivityOptions defaults() {
        return new SensitivityOptions(
                Runtime.getRuntime().availableProcessors(), CalibrationOptions.DEFAULT_BATCH, (_, _) -> {});
    }
}
