package dev.octet.converter.runtime;

import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * How a calibration runs. None of it changes what is measured, except that another batch size or thread count may change the last
 * bits of what the model computes.
 *
 * @param threads threads for the model and for the statistics
 * @param batchSize samples run together
 * @param checkpoint file that holds the statistics so far, written now and then and at the end, and read at the start to go on
 *     from; null for none
 * @param checkpointSamples samples between two writes of that file
 * @param memory bytes of weights to hold at once; a model with more is cut into pieces, and all samples go through one before the next
 *     is read. A piece with a single weight that is larger runs all the same
 * @param progress called after each batch
 */
public record CalibrationOptions(
        int threads,
        int batchSize,
        @Nullable Path checkpoint,
        int checkpointSamples,
        long memory,
        ProgressListener progress) {
    /**
     * Samples run together. Measured on MiniLM, 256 glosses, 2 cores, processor seconds of the whole calibration: 3.9 with 4 samples, 4.7
     * with 8, 4.6 with 16, 4.7 with 32; larger batches pad more and hold more memory.
     */
    public static final int DEFAULT_BATCH = 4;

    /** Default of the bytes of weights held at once: enough for a layer of any model that a machine of some memory can run. */
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
                ProgressListener.NONE);
    }

    /** The same with another threads. */
    public CalibrationOptions withThreads(int newThreads) {
        return new CalibrationOptions(newThreads, batchSize, checkpoint, checkpointSamples, memory, progress);
    }

    /** The same with another batch size. */
    public CalibrationOptions withBatchSize(int newBatchSize) {
        return new CalibrationOptions(threads, newBatchSize, checkpoint, checkpointSamples, memory, progress);
    }

    /** The same with another checkpoint. */
    public CalibrationOptions withCheckpoint(@Nullable Path file, int everySamples) {
        return new CalibrationOptions(threads, batchSize, file, everySamples, memory, progress);
    }

    /** The same with another progress. */
    public CalibrationOptions withProgress(ProgressListener newProgress) {
        return new CalibrationOptions(threads, batchSize, checkpoint, checkpointSamples, memory, newProgress);
    }

    /** The same with another memory for weights. */
    public CalibrationOptions withMemory(long bytes) {
        return new CalibrationOptions(threads, batchSize, checkpoint, checkpointSamples, bytes, progress);
    }
}
