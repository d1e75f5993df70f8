package dev.octet.pipeline.plan;

import dev.octet.trainer.collective.Mesh;
import java.util.Optional;

/** A model as something to be trained by many. */
public sealed interface Workload permits DecoderWorkload, GraphWorkload {
    /** All parameters. */
    long parameters();

    /** Operations of a step: forward and backward of everything, nothing twice. */
    double flops(PlannedStep work);

    /** Why the model cannot be dealt out so; empty when it can. */
    Optional<String> against(Mesh mesh);

    /** What an accelerator of a stage has and does; of a mesh that nothing speaks against. */
    StageLoad stage(Mesh mesh, int stage, int microBatch, PlannedStep work);
}
