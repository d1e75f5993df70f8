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

    /** A copy with this number of threads. */
    public SensitivityOptions withThreads(int newThreads) {
        return new SensitivityOptions(newThreads, batchSize, progress);
    }

    /** A copy with this batch size. */
    public SensitivityOptions withBatchSize(int newBatchSize) {
        return new SensitivityOptions(threads, newBatchSize, progress);
    }

    /** A copy with this listener. */
    public SensitivityOptions withProgress(VariantProgress newProgress) {
        return new SensitivityOptions(threads, batchSize, newProgress);
    }
}
