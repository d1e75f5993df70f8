package dev.octet.pipeline;

import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.checkpoint.CheckpointPlan;
import dev.octet.converter.checkpoint.CheckpointResult;
import dev.octet.converter.checkpoint.ConversionRequest;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Optional;

/**
 * What quantize, dequantize and convert do with a checkpoint once its goal is known: plan, and carry out the plan unless nothing is to be
 * written.
 *
 * @param output where to write
 */
record CheckpointWork(CheckpointConverter converter, Path output, Job job) {
    CheckpointOutcome run(ConversionRequest goal, CheckpointConverter.Request request, StaticScales scales)
            throws IOException {
        return run(goal, request, scales, Optional.empty());
    }

    /**
     * The same with a page about it.
     *
     * @param report where the page is written; empty for none
     */
    CheckpointOutcome run(
            ConversionRequest goal, CheckpointConverter.Request request, StaticScales scales, Optional<Path> report)
            throws IOException {
        job.requireFolderName(output);
        report.ifPresent(job::refuseExisting);
        Stopwatch watch = new Stopwatch();
        CheckpointPlan plan = converter.plan(goal, request, job.streaming("looking for NaN and infinity"));
        watch.step("plan");
        CheckpointResult result = job.dryRun() ? null : converter.run(plan, output, job.streaming(task(goal)));
        watch.step(task(goal));
        CheckpointOutcome outcome = CheckpointOutcome.of(converter, plan, output.toString(), result, scales);
        if (result != null && report.isPresent()) {
            CheckpointReport.write(plan, outcome, watch, job, report.get());
        }
        return outcome;
    }

    private static String task(ConversionRequest goal) {
        return switch (goal) {
            case ConversionRequest.Quantize _ -> "quantising";
            case ConversionRequest.Dequantize _ -> "dequantising";
            case ConversionRequest.Convert _ -> "converting";
            case ConversionRequest.Merge _ -> "merging";
        };
    }
}
