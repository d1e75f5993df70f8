package dev.octet.converter.runtime;

import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * Options of a calibration. They do not affect the statistics, except that batch size and thread count may change the last bits of the
 * model's values.
 *
 * @param threads threads for the model and for the statistics
 * @param batchSize samples per batch
 * @param checkpoint file with the statistics so far, written periodically and at the end; a run resumes from it; null for none
 * @param checkpointSamples samples between two writes of the checkpoint
 * @param memory bytes of weights to hold at once; a larger model is cut into pieces, and all samples pass one piece before the next is
 *     read. A single larger weight still runs, as a piece of its own
 * @param secondMoments file for the second moments of the taps with channels, written at the end; null for none. Of a piece of the model
 *     they count as its memory, those of other pieces wait on disk
 * @param progress called after each batch
 */
public record CalibrationOptions(
        int threads,
        int batchSize,
        @Nullable Path checkpoint,
        int checkpointSamples,
        long memory,
        @Nullable Path secondMoments,
        ProgressListener progress) {
    /**
     * Samples per batch. Processor seconds of a calibration of MiniLM with 256 glosses on 2 cores: 3.9 with 4 samples, 4.7 with 8, 4.6 with
     * 16, 4.7 with 32; larger batches need more padding and memory.
     */
    public static final int DEFAULT_BATCH = 4;

    /** Default limit of the weights held at once: enough for a layer of any common model. */
    public static final long DEFAULT_MEMORY = 4L << 30;

    public CalibrationOptions {
        if (threads < 1 || batchSize < 1 || checkpointSamples < 1 || memory < 0) {
            throw new IllegalArgumentException("threads " + threads + ", batch size " + batchSize
                    + ", checkpoint every " + checkpointSamples + " samples, " + memory + " bytes");
        }
    }

    /** All cores, no checkpoint, no progress. */
    public static CalibrationOptions defaults() {
        return new CalibrationOptions(
                Runtime.getRuntime().availableProcessors(),
                DEFAULT_BATCH,
                null,
                256,
                DEFAULT_MEMORY,
                null,
                ProgressListener.NONE);
    }

    /** A copy with this number of threads. */
    public CalibrationOptions withThreads(int newThreads) {
        return new CalibrationOptions(
                newThreads, batchSize, checkpoint, checkpointSamples, memory, secondMoments, progress);
    }

    /** A copy with this batch size. */
    public CalibrationOptions withBatchSize(int newBatchSize) {
        return new CalibrationOptions(
                threads, newBatchSize, checkpoint, checkpointSamples, memory, secondMoments, progress);
    }

    /** A copy with this checkpoint. */
    public CalibrationOptions withCheckpoint(@Nullable Path file, int everySamples) {
        return new CalibrationOptions(threads, batchSize, file, everySamples, memory, secondMoments, progress);
    }

    /** A copy with this progress listener. */
    public CalibrationOptions withProgress(ProgressListener newProgress) {
        return new CalibrationOptions(
                threads, batchSize, checkpoint, checkpointSamples, memory, secondMoments, newProgress);
    }

    /** A copy with this memory for weights. */
    public CalibrationOptions withMemory(long bytes) {
        return new CalibrationOptions(
                threads, batchSize, checkpoint, checkpointSamples, bytes, secondMoments, progress);
    }

    /** A copy that takes second moments, too. */
    public CalibrationOptions withSecondMoments(@Nullable Path file) {
        return new CalibrationOptions(threads, batchSize, checkpoint, checkpointSamples, memory, file, progress);
    }
}
