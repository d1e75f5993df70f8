package dev.octet.pipeline;

import dev.octet.converter.checkpoint.CheckpointPlan;
import dev.octet.converter.checkpoint.CheckpointResult;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Optional;

/**
 * What quantize, dequantize and convert do with a checkpoint once its goal is known: plan, and carry out the plan unless nothing is to be
 * written.
 *
 * @param output where to write
 */
record CheckpointWork(CheckpointGoal goal, Path output, Job job) {
    /**
     * Does it.
     *
     * @param report where a page about it is written; empty for none
     */
    CheckpointOutcome run(Optional<Path> report) throws IOException {
        job.requireFolderName(output);
        report.ifPresent(job::refuseExisting);
        Stopwatch watch = new Stopwatch();
        CheckpointPlan plan = goal.plan(job);
        watch.step("plan");
        CheckpointResult result = job.dryRun() ? null : goal.converter().run(plan, output, job.streaming(goal.task()));
        watch.step(goal.task());
        CheckpointOutcome outcome =
                CheckpointOutcome.of(goal.converter(), plan, output.toString(), result, goal.scales());
        if (result != null && report.isPresent()) {
            CheckpointReport.write(plan, outcome, watch, job, report.get());
        }
        return outcome;
    }
}
