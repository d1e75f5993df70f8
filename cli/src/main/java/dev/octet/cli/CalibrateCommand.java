package dev.octet.cli;

import dev.octet.converter.Converter;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.data.InputSpec;
import dev.octet.converter.plan.Plan;
import dev.octet.converter.runtime.CalibrationOptions;
import dev.octet.formats.ModelFile;
import dev.octet.formats.file.Sha256;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.StatisticsFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.commons.cli.Option;

/** {@code octet calibrate MODEL -o STATS}: runs data through the model and writes the statistics of its activations. */
final class CalibrateCommand implements Command {
    /** Often enough that little is lost, seldom enough to cost nothing. */
    private static final int CHECKPOINT_SAMPLES = 64;

    private static final Option MERGE =
            Flags.flag("merge", "merge the statistics files given instead of a model; no data is needed");

    /** What {@code --json} prints. */
    record Answer(String output, long samples, int tensors, boolean resumed, double seconds) {}

    @Override
    public String name() {
        return "calibrate";
    }

    @Override
    public String summary() {
        return "Run data through a model and write the statistics of its activations; continues where it was"
                + " interrupted.";
    }

    @Override
    public List<String> operands() {
        return List.of("MODEL");
    }

    @Override
    public List<Option> options() {
        List<Option> options = new ArrayList<>(List.of(Flags.OUTPUT, DataFlags.CALIBRATION));
        options.addAll(DataFlags.all());
        options.addAll(List.of(MERGE, Flags.THREADS, Flags.FORCE, Flags.DRY_RUN));
        return options;
    }

    @Override
    public List<String> examples() {
        return List.of(
                "octet calibrate model.onnx -o model.stats --calibration texts.jsonl --tokenizer tokenizer.json",
                "octet calibrate model.onnx -o model.stats --calibration inputs.npz --samples 256",
                "octet calibrate --merge a.stats b.stats -o both.stats");
    }

    @Override
    public void checkOperands(Arguments arguments) {
        if (!arguments.has(MERGE)) {
            arguments.requireOperands();
        } else if (arguments.operands() < 2) {
            throw arguments.usage("--merge needs two statistics files or more", "octet calibrate --merge A B -o BOTH");
        }
    }

    @Override
    public ExitCode run(Arguments arguments, Screen screen) throws IOException {
        long start = System.nanoTime();
        Path output = arguments.requiredPath(Flags.OUTPUT);
        if (arguments.has(MERGE)) {
            return merge(arguments, output, screen, start);
        }
        Path model = arguments.operand(0);
        Path data = arguments
                .path(DataFlags.CALIBRATION)
                .orElseThrow(() -> arguments.usage(
                        "missing --calibration FILE", "give real samples as .npz or .jsonl; never calibrate on noise"));
        boolean resumed = prepare(arguments, output);
        try (ModelFile file = ModelFile.open(model);
                Converter converter = Converter.of(file.model());
                Dataset samples = DataFlags.open(arguments, data, model, InputSpec.of(converter.source()));
                Progress progress = arguments.progress(screen)) {
            Plan plan = converter.plan(Recipes.FP8, List.of());
            if (arguments.has(Flags.DRY_RUN)) {
                return dryRun(plan, samples, screen);
            }
            CalibrationOptions options = CalibrationOptions.defaults()
                    .withThreads(arguments.threads())
                    .withCheckpoint(output, CHECKPOINT_SAMPLES)
                    .withProgress((done, total) -> progress.update("calibrating", done, total, "samples"));
            Statistics statistics = converter.calibrate(plan, samples, Sha256.of(model), options);
            progress.end();
            print(
                    new Answer(
                            output.toString(),
                            statistics.samplesDone(),
                            statistics.tensors().size(),
                            resumed,
                            seconds(start)),
                    arguments,
                    screen);
        }
        return ExitCode.OK;
    }

    /** An unfinished file is continued; a finished one is kept unless it is to be overwritten. Returns whether there is one to continue. */
    private static boolean prepare(Arguments arguments, Path output) throws IOException {
        if (!Files.exists(output) || arguments.has(Flags.DRY_RUN)) {
            return false;
        }
        if (arguments.has(Flags.FORCE)) {
            Files.delete(output);
            return false;
        }
        if (StatisticsFile.read(output).complete()) {
            arguments.refuseExisting(output);
        }
        return true;
    }

    private static ExitCode dryRun(Plan plan, Dataset samples, Screen screen) {
        screen.out()
                .println("would measure " + plan.taps().size() + " tensors over " + samples.count() + " samples of "
                        + samples.name());
        return ExitCode.OK;
    }

    private static ExitCode merge(Arguments arguments, Path output, Screen screen, long start) throws IOException {
        arguments.refuseExisting(output);
        Statistics merged = StatisticsFile.read(arguments.operand(0));
        for (int i = 1; i < arguments.operands(); i++) {
            merged = merged.merge(StatisticsFile.read(arguments.operand(i)));
        }
        if (!arguments.has(Flags.DRY_RUN)) {
            StatisticsFile.write(merged, output);
        }
        print(
                new Answer(
                        output.toString(),
                        merged.samplesDone(),
                        merged.tensors().size(),
                        false,
                        seconds(start)),
                arguments,
                screen);
        return ExitCode.OK;
    }

    private static void print(Answer answer, Arguments arguments, Screen screen) {
        if (arguments.has(Flags.JSON)) {
            screen.out().println(Json.page(answer));
        } else {
            screen.out()
                    .print(new Table()
                            .row("statistics", answer.output())
                            .row("tensors", answer.tensors())
                            .row("samples", answer.samples() + (answer.resumed() ? " (continued)" : ""))
                            .row("time", Table.seconds(answer.seconds()))
                            .text(0));
        }
    }

    private static double seconds(long startNanos) {
        return (System.nanoTime() - startNanos) / 1e9;
    }
}
