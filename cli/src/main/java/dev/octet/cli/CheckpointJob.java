package dev.octet.cli;

import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.checkpoint.CheckpointPlan;
import dev.octet.converter.checkpoint.CheckpointResult;
import dev.octet.converter.checkpoint.ConversionRequest;
import java.io.IOException;
import java.nio.file.Path;

/**
 * What quantize, dequantize and convert do with a checkpoint once its goal is known: plan, run unless it is a dry run, print.
 *
 * @param output where to write
 */
record CheckpointJob(Arguments arguments, Screen screen, Path output) {
    /** The job that a command line asks for; refuses one that does not say where to write. */
    static CheckpointJob of(Arguments arguments, Screen screen) {
        return new CheckpointJob(arguments, screen, arguments.requiredPath(Flags.OUTPUT));
    }

    /** Does it with activations quantised dynamically, if at all. */
    ExitCode run(CheckpointConverter converter, ConversionRequest goal) throws IOException {
        return run(converter, goal, StaticScales.NONE);
    }

    /** Does it, with static scales. */
    ExitCode run(CheckpointConverter converter, ConversionRequest goal, StaticScales scales) throws IOException {
        CheckpointConverter.Request request = new CheckpointConverter.Request(
                CheckpointFlags.selection(arguments),
                scales.byModule(),
                scales.cache(),
                arguments.has(CheckpointFlags.ALLOW_NONFINITE),
                arguments.has(QuantizeCheckpoint.KEEP_SCALES),
                arguments.has(CheckpointFlags.EXACT_ONLY));
        try (Progress progress = arguments.progress(screen)) {
            CheckpointPlan plan = converter.plan(
                    goal, request, CheckpointFlags.runOptions(arguments, "looking for NaN and infinity", progress));
            CheckpointResult result = arguments.has(Flags.DRY_RUN)
                    ? null
                    : converter.run(
                            goal, request, plan, output, CheckpointFlags.runOptions(arguments, task(goal), progress));
            progress.end();
            CheckpointAnswer.of(converter, goal, plan, output.toString(), result, scales)
                    .print(arguments, screen);
        }
        return ExitCode.OK;
    }

    private static String task(ConversionRequest goal) {
        return switch (goal) {
            case ConversionRequest.Quantize _ -> "quantising";
            case ConversionRequest.Dequantize _ -> "dequantising";
            case ConversionRequest.Convert _ -> "converting";
        };
    }
}
