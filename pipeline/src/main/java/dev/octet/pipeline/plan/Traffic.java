package dev.octet.pipeline.plan;

/**
 * Bytes that one accelerator sends in a step.
 *
 * @param data to average gradients and to gather weights
 * @param tensor to share layers
 * @param pipeline from stage to stage
 */
public record Traffic(double data, double tensor, double pipeline) {
    /** What a rank of {@code n} sends in a reduce-scatter or an all-gather of {@code bytes} by a ring: all but its own part. */
    static double ring(int n, double bytes) {
        return bytes * (n - 1) / n;
    }
}
