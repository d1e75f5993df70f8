package dev.octet.cli;

import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.data.InputSpec;
import dev.octet.converter.plan.Plan;
import dev.octet.converter.runtime.CalibrationOptions;
import dev.octet.converter.runtime.ModuleTaps;
import dev.octet.converter.runtime.NewStatistics;
import dev.octet.converter.runtime.ProgressListener;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.StatisticsFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.commons.cli.Option;

/** {@code octet calibrate MODEL -o STATS}: runs data through the model and writes the statistics of its activations. */
final class CalibrateCommand implements Command {
    /** Often enough that little is lost, seldom enough to cost nothing. */
    private static final int CHECKPOINT_SAMPLES = 64;

    private static final PathOption DATA = PathOption.read("data", "FILE", "the same as --calibration");
    private static final Option MEMORY = Flags.value(
            "memory",
            "SIZE",
            "memory for weights, as 8G or 500M: a model with more runs piece by piece, values between pieces lie on"
                    + " disk beside the output; the statistics are the same (default: 4G)");

    private static final Option MERGE =
            Flags.flag("merge", "merge the statistics files given instead of a model; no data is needed");

    private static final Pattern SIZE = Pattern.compile("(\\d{1,9})([KMG]?)");
    /** Powers of two by their letters. */
    private static final Map<String, Integer> UNITS = Map.of("K", 10, "M", 20, "G", 30);

    /**
     * What {@code --json} prints.
     *
     * @param nonFinite tensors in which a NaN or an infinity was seen
     */
    record Answer(String output, long samples, int tensors, List<String> nonFinite, boolean resumed, double seconds) {}

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
        List<Option> options = new ArrayList<>(List.of(Flags.OUTPUT, DataFlags.CALIBRATION, DATA));
        options.addAll(DataFlags.all());
        options.addAll(List.of(MEMORY, MERGE, Flags.THREADS, Flags.FORCE, Flags.DRY_RUN));
        return options;
    }

    @Override
    public List<String> examples() {
        return List.of(
                "octet calibrate model.onnx -o model.stats --calibration texts.jsonl --tokenizer tokenizer.json",
                "octet calibrate model.onnx -o model.stats --calibration inputs.npz --samples 256",
                "octet calibrate Llama-3.1-8B -o llama.stats --data texts.jsonl --memory 8G",
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
        Path data = data(arguments);
        long memory = memory(arguments);
        boolean resumed = resumes(arguments, output);
        try (ModelSource source = ModelSource.open(model);
                Converter converter = source.converter();
                Dataset samples = DataFlags.open(arguments, data, model, InputSpec.of(converter.source()));
                Progress progress = arguments.progress(screen)) {
            Optional<ModelSource.HuggingFace> checkpoint = source.huggingFace();
            if (checkpoint.isPresent()) {
                checkpoint.get().tokenLimits().check(samples);
            }
            if (arguments.has(Flags.DRY_RUN)) {
                int tensors = checkpoint.isPresent()
                        ? ModuleTaps.of(converter.canonical()).size()
                        : plan(converter).taps().size();
                return dryRun(tensors, samples, screen);
            }
            Optional<NewStatistics> replacing = Files.exists(output) && arguments.has(Flags.FORCE)
                    ? Optional.of(NewStatistics.inPlaceOf(output, source.digest(), samples))
                    : Optional.empty();
            boolean goesOn = replacing.map(NewStatistics::begun).orElse(resumed);
            CalibrationOptions options = CalibrationOptions.defaults()
                    .withThreads(arguments.threads())
                    .withMemory(memory)
                    .withCheckpoint(replacing.map(NewStatistics::checkpoint).orElse(output), CHECKPOINT_SAMPLES)
                    .withProgress(new Bar(progress));
            Statistics statistics = checkpoint.isPresent()
                    ? converter.calibrateModules(samples, source.digest(), options)
                    : converter.calibrate(plan(converter), samples, source.digest(), options);
            if (replacing.isPresent()) {
                replacing.get().publish();
            }
            progress.end();
            print(answer(output, statistics, goesOn, start), arguments, screen);
        }
        return ExitCode.OK;
    }

    private static Plan plan(Converter converter) {
        Plan plan = converter.plan(Recipes.GRAPH_FP8, List.of());
        plan.requireTaps();
        return plan;
    }

    /** Shows which piece runs, and how far it is. */
    private static final class Bar implements ProgressListener {
        private final Progress progress;
        private String name = "calibrating";

        Bar(Progress progress) {
            this.progress = progress;
        }

        @Override
        public void samples(int done, int total) {
            progress.update(name, done, total, "samples");
        }

        @Override
        public void piece(int piece, int pieces) {
            name = "calibrating, piece " + piece + " of " + pieces;
        }
    }

    private static Path data(Arguments arguments) {
        Optional<Path> named = arguments.path(DataFlags.CALIBRATION);
        Optional<Path> data = arguments.path(DATA);
        if (named.isPresent() && data.isPresent()) {
            throw arguments.usage("--data and --calibration name the same thing", "give one of them");
        }
        return named.or(() -> data)
                .orElseThrow(() -> arguments.usage(
                        "missing --calibration FILE", "give real samples as .npz or .jsonl; never calibrate on noise"));
    }

    private static long memory(Arguments arguments) {
        Optional<String> text = arguments.text(MEMORY);
        if (text.isEmpty()) {
            return CalibrationOptions.DEFAULT_MEMORY;
        }
        Matcher m = SIZE.matcher(text.get());
        if (!m.matches()) {
            throw arguments.usage(
                    "--memory needs a size, got '" + text.get() + "'", "for example 8G for eight GiB, or 500M");
        }
        return Long.parseLong(m.group(1)) << UNITS.getOrDefault(m.group(2), 0);
    }

    /** Whether there is an unfinished file to continue; a finished one is kept unless it is to be overwritten. */
    private static boolean resumes(Arguments arguments, Path output) throws IOException {
        if (arguments.has(Flags.DRY_RUN) || arguments.has(Flags.FORCE) || !Files.exists(output)) {
            return false;
        }
        if (StatisticsFile.read(output).complete()) {
            arguments.refuseExisting(output);
        }
        return true;
    }

    private static ExitCode dryRun(int tensors, Dataset samples, Screen screen) {
        screen.out()
                .println("would measure " + tensors + " tensors over " + samples.count() + " samples of "
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
        print(answer(output, merged, false, start), arguments, screen);
        return ExitCode.OK;
    }

    private static Answer answer(Path output, Statistics statistics, boolean resumed, long startNanos) {
        List<String> nonFinite = new ArrayList<>();
        statistics.tensors().forEach((name, t) -> {
            if (t.nans() + t.infinities() > 0) {
                nonFinite.add(name);
            }
        });
        return new Answer(
                output.toString(),
                statistics.samplesDone(),
                statistics.tensors().size(),
                nonFinite,
                resumed,
                (System.nanoTime() - startNanos) / 1e9);
    }

    private static void print(Answer answer, Arguments arguments, Screen screen) {
        if (arguments.has(Flags.JSON)) {
            screen.out().println(Json.page(answer));
        } else {
            Table table = new Table()
                    .row("statistics", answer.output())
                    .row("tensors", answer.tensors())
                    .row("samples", answer.samples() + (answer.resumed() ? " (continued)" : ""))
                    .row("time", Table.seconds(answer.seconds()));
            if (!answer.nonFinite().isEmpty()) {
                table.row("NaN or infinite", String.join(", ", answer.nonFinite()));
            }
            screen.out().print(table.text(0));
        }
    }
}
