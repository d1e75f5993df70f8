package dev.octet.pipeline.plan;

import dev.octet.trainer.collective.Mesh;

/**
 * One way to train, and what it comes to.
 *
 * @param mesh who does what
 * @param microBatch samples of a micro-batch
 * @param microBatches of a step, on each group of data-parallel ranks
 * @param recompute whether layers are computed again in backward
 * @param bytes of the fullest accelerator
 * @param time of a step
 * @param traffic of an accelerator in a step
 */
public record Choice(
        Mesh mesh,
        int microBatch,
        long microBatches,
        boolean recompute,
        DeviceBytes bytes,
        StepTime time,
        Traffic traffic) {
    /** The part of a pipeline's time in which a stage waits: {@code (p - 1) / (v m + p - 1)}. */
    public double bubble() {
        double idle = (mesh.pipeline() - 1.0) / mesh.chunks();
        return idle / (microBatches + idle);
    }
}
