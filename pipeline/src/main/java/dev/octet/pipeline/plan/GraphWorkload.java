package dev.octet.pipeline.plan;

import dev.octet.trainer.collective.Mesh;
import java.util.Optional;

/**
 * A model of which only its graph is known, as the trainer plans it for one micro-batch: it can be trained by ranks that each have all of its layers.
 *
 * @param parameters all of them
 * @param forward operations of its products in forward, for a sample
 * @param touched bytes that its other operators read and write in forward, for a sample
 * @param kept bytes of a sample's values within a step
 */
public record GraphWorkload(long parameters, double forward, double touched, double kept) implements Workload {
    @Override
    public double flops(PlannedStep work) {
        return 3 * forward * work.samples();
    }

    @Override
    public Optional<String> against(Mesh mesh) {
        return mesh.tensor() == 1 && mesh.pipeline() == 1 && mesh.zero() < 3
                ? Optional.empty()
                : Optional.of("weights and layers are dealt out only of models with a config.json that is known");
    }

    @Override
    public StageLoad stage(Mesh mesh, int stage, int microBatch, PlannedStep work) {
        return new StageLoad(
                parameters,
                0,
                forward * microBatch,
                0,
                0,
                touched * microBatch,
                kept * microBatch,
                kept * microBatch,
                0,
                0,
                0,
                0);
    }
}
