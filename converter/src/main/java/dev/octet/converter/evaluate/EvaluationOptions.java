package dev.octet.converter.evaluate;

import dev.octet.converter.runtime.CalibrationOptions;
import dev.octet.converter.runtime.ProgressListener;

/**
 * Options of an evaluation.
 *
 * @param threads threads of ONNX Runtime
 * @param batchSize samples per batch
 * @param perplexity whether to compare perplexities too; requires causal language models
 * @param progress called after each batch
 */
public record EvaluationOptions(int threads, int batchSize, boolean perplexity, ProgressListener progress) {
    public EvaluationOptions {
        if (threads < 1 || batchSize < 1) {
            throw new IllegalArgumentException("threads " + threads + ", batch size " + batchSize);
        }
    }

    /** All cores, no progress. */
    public static EvaluationOptions defaults() {
        return new EvaluationOptions(
                Runtime.getRuntime().availableProcessors(),
                CalibrationOptions.DEFAULT_BATCH,
                false,
                ProgressListener.NONE);
    }

    /** A copy with this number of threads. */
    public EvaluationOptions withThreads(int newThreads) {
        return new EvaluationOptions(newThreads, batchSize, perplexity, progress);
    }

    /** A copy with this batch size. */
    public EvaluationOptions withBatchSize(int newBatchSize) {
        return new EvaluationOptions(threads, newBatchSize, perplexity, progress);
    }

    /** A copy with or without perplexities. */
    public EvaluationOptions withPerplexity(boolean newPerplexity) {
        return new EvaluationOptions(threads, batchSize, newPerplexity, progress);
    }

    /** A copy with this progress listener. */
    public EvaluationOptions withProgress(ProgressListener newProgress) {
        return new EvaluationOptions(threads, batchSize, perplexity, newProgress);
    }
}
