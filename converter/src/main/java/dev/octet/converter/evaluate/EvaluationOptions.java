package dev.octet.converter.evaluate;

import dev.octet.converter.runtime.CalibrationOptions;
import dev.octet.converter.runtime.ProgressListener;

/**
 * How an evaluation runs.
 *
 * @param threads threads that ONNX Runtime may use
 * @param batchSize samples run together
 * @param perplexity whether the models are causal language models, whose perplexities are to be compared, too
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

    /** The same with another threads. */
    public EvaluationOptions withThreads(int newThreads) {
        return new EvaluationOptions(newThreads, batchSize, perplexity, progress);
    }

    /** The same with another batch size. */
    public EvaluationOptions withBatchSize(int newBatchSize) {
        return new EvaluationOptions(threads, newBatchSize, perplexity, progress);
    }

    /** The same, with or without perplexities. */
    public EvaluationOptions withPerplexity(boolean newPerplexity) {
        return new EvaluationOptions(threads, batchSize, newPerplexity, progress);
    }

    /** The same with another progress. */
    public EvaluationOptions withProgress(ProgressListener newProgress) {
        return new EvaluationOptions(threads, batchSize, perplexity, newProgress);
    }
}
