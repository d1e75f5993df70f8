package dev.octet.pipeline.plan;

/**
 * Bytes that the fullest accelerator of a mesh holds.
 *
 * @param parameters of the model that it computes with, not bytes
 * @param weights that products read
 * @param masters parameters as they are updated
 * @param gradients their sums
 * @param moments of the optimizer
 * @param activations kept between forward and backward, of all micro-batches under way
 * @param buffers weights that are gathered for a moment
 */
public record DeviceBytes(
        long parameters, long weights, long masters, long gradients, long moments, long activations, long buffers) {
    /** All of it. */
    public long total() {
        return weights + masters + gradients + moments + activations + buffers;
    }
}
