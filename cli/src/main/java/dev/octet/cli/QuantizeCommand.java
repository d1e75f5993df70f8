package dev.octet.cli;

import dev.octet.converter.Conversion;
import dev.octet.converter.ConversionOptions;
import dev.octet.converter.ConversionReport;
import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.data.InputSpec;
import dev.octet.converter.evaluate.EvaluationOptions;
import dev.octet.converter.inspect.Inspection;
import dev.octet.converter.lower.OnnxTarget;
import dev.octet.converter.plan.LayerResult;
import dev.octet.converter.plan.Plan;
import dev.octet.converter.report.HtmlReport;
import dev.octet.converter.report.ReportData;
import dev.octet.converter.runtime.CalibrationOptions;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.quant.calibrate.Absmax;
import dev.octet.quant.calibrate.Calibrator;
import dev.octet.quant.gptq.SecondMoment;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.StatisticsFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.commons.cli.Option;
import org.jspecify.annotations.Nullable;

/** {@code octet quantize MODEL -o OUT}: the main job. */
final class QuantizeCommand implements Command {
    private static final int KEPT_SHOWN = 20;

    private static final Map<String, Recipe> RECIPES = Recipes.byName(Recipes.GRAPH);
    private static final Map<String, OnnxTarget> TARGETS =
            Flags.byName(Arrays.asList(OnnxTarget.values()), OnnxTarget::label);

    private static final Option RECIPE = Flags.value(
            "recipe",
            "NAME",
            "ONNX: " + Recipes.names(Recipes.GRAPH) + " (default: " + Recipes.GRAPH_FP8.name() + "); checkpoints: "
                    + Recipes.names(Recipes.CHECKPOINT) + " (default: "
                    + Recipes.FP8_DYNAMIC.name() + ")");
    private static final PathOption STATISTICS =
            PathOption.read("statistics", "FILE", "scales from a file of 'octet calibrate', instead of --calibration");
    private static final Option CALIBRATOR = Flags.value(
            "calibrator", "NAME", "how clips follow from statistics: " + Calibrator.SYNTAX + " (default: absmax)");
    private static final Option TARGET = Flags.value(
            "target",
            "NAME",
            "ONNX: " + String.join(", ", TARGETS.keySet()) + " (default: " + OnnxTarget.ONNXRUNTIME.label()
                    + "); checkpoints: " + String.join(", ", CheckpointFlags.LAYOUTS.keySet())
                    + " (default: compressed-tensors, for fp8-block fp8)");
    private static final Option ROUNDING = Flags.value(
            "rounding",
            "NAME",
            "how weights are rounded: gptq (compensated for the data of --calibration, one more run over it) or nearest"
                    + " (default: gptq with --calibration, nearest without)");
    private static final PathOption REPORT =
            PathOption.written("report", "FILE.html", "write a report (default: none)");

    /** What {@code --json} prints. */
    record Answer(
            String model,
            String output,
            @Nullable String report,
            String recipe,
            String target,
            @Nullable String calibrator,
            long samples,
            List<LayerCount> layers,
            List<LayerCount.Kept> kept,
            long originalBytes,
            long convertedBytes,
            double weightSqnrDbMin,
            double seconds,
            boolean dryRun) {}

    @Override
    public String name() {
        return "quantize";
    }

    @Override
    public String summary() {
        return "Rewrite a model to FP8 with calibrated scales.";
    }

    @Override
    public List<String> operands() {
        return List.of("MODEL");
    }

    @Override
    public List<Option> options() {
        List<Option> options = new ArrayList<>(List.of(Flags.OUTPUT, RECIPE, DataFlags.CALIBRATION, STATISTICS));
        options.addAll(DataFlags.all());
        options.addAll(List.of(CALIBRATOR, TARGET, ROUNDING, CheckpointFlags.KEEP, REPORT));
        options.addAll(QuantizeCheckpoint.OPTIONS);
        options.addAll(List.of(Flags.THREADS, Flags.FORCE, Flags.DRY_RUN));
        return options;
    }

    @Override
    public List<String> examples() {
        return List.of(
                "octet quantize model.onnx -o fp8.onnx --calibration texts.jsonl --tokenizer tokenizer.json --report"
                        + " r.html",
                "octet quantize model.onnx -o fp8.onnx --statistics model.stats --calibrator percentile:99.99",
                "octet quantize model.onnx -o fp8.onnx --recipe fp8-weight-only --keep pooler",
                "octet quantize Llama-3.1-8B -o Llama-3.1-8B-FP8 --recipe fp8-dynamic --target compressed-tensors",
                "octet quantize Llama-3.1-8B -o static --recipe fp8 --target modelopt --statistics llama.stats"
                        + " --kv-cache fp8",
                "octet quantize Qwen3-8B -o Qwen3-8B-block --recipe fp8-block --target fp8 --keep 'layers\\.0\\.'");
    }

    @Override
    public ExitCode run(Arguments arguments, Screen screen) throws IOException {
        long start = System.nanoTime();
        Path model = arguments.operand(0);
        boolean graph = TARGETS.containsKey(arguments.text(TARGET).orElse(""));
        if (Files.exists(model) && !graph && Checkpoint.isCheckpoint(model)) {
            return QuantizeCheckpoint.run(
                    arguments,
                    screen,
                    new Choices(
                            RECIPE, TARGET, STATISTICS, CALIBRATOR, List.of(DataFlags.CALIBRATION, ROUNDING, REPORT)));
        }
        arguments.refuse(
                QuantizeCheckpoint.OPTIONS, "is for checkpoint layouts", "leave it out: an ONNX model is written");
        Path output = arguments.outputFile();
        Optional<Path> report = arguments.outputFile(REPORT);
        Recipe recipe = arguments.choice(RECIPE, RECIPES, Recipes.GRAPH_FP8);
        ConversionOptions options = ConversionOptions.defaults()
                .withTarget(arguments.choice(TARGET, TARGETS, OnnxTarget.ONNXRUNTIME))
                .withCalibrator(
                        arguments.text(CALIBRATOR).map(Calibrator::parse).orElse(new Absmax()))
                .withThreads(arguments.threads());
        List<Pattern> keep = CheckpointFlags.patterns(arguments, CheckpointFlags.KEEP);
        boolean compensated = compensated(arguments);
        try (ModelSource source = ModelSource.open(model);
                Converter converter = source.converter()) {
            Plan plan = converter.plan(recipe, keep);
            long originalBytes = Inspection.fileBytes(model);
            if (arguments.has(Flags.DRY_RUN)) {
                print(answer(arguments, plan, options, null, List.of(), originalBytes, 0, start), arguments, screen);
                return ExitCode.OK;
            }
            List<ReportData.Timing> timings = new ArrayList<>();
            timings.add(new ReportData.Timing("import", seconds(start)));
            long calibrating = System.nanoTime();
            Statistics statistics =
                    recipe.needsStatistics() ? statistics(arguments, converter, plan, model, screen) : null;
            timings.add(new ReportData.Timing("calibrate", seconds(calibrating)));
            long converting = System.nanoTime();
            Conversion converted = converter.convert(
                    plan,
                    statistics,
                    compensated ? options.withMoments(moments(arguments, converter, plan, model, screen)) : options);
            timings.add(new ReportData.Timing("convert", seconds(converting)));
            long comparing = System.nanoTime();
            Conversion conversion = measured(arguments, converter, converted, model, screen);
            timings.add(new ReportData.Timing("compare layers", seconds(comparing)));
            long writing = System.nanoTime();
            conversion.save(output);
            timings.add(new ReportData.Timing("write", seconds(writing)));
            long convertedBytes = Files.size(output);
            if (report.isPresent()) {
                HtmlReport.write(
                        ConversionReport.of(
                                conversion,
                                String.valueOf(model.getFileName()),
                                options.calibrator().text(),
                                originalBytes,
                                convertedBytes,
                                statistics,
                                timings),
                        report.get());
            }
            print(
                    answer(
                            arguments,
                            conversion.plan(),
                            options,
                            statistics,
                            conversion.layers(),
                            originalBytes,
                            convertedBytes,
                            start),
                    arguments,
                    screen);
        }
        return ExitCode.OK;
    }

    /**
     * Options whose meaning depends on the kind of model.
     *
     * @param graphOnly those that a checkpoint has no use for
     */
    record Choices(Option recipe, Option target, PathOption statistics, Option calibrator, List<Option> graphOnly) {}

    private static @Nullable Statistics statistics(
            Arguments arguments, Converter converter, Plan plan, Path model, Screen screen) throws IOException {
        Optional<Path> file = arguments.path(STATISTICS);
        Optional<Path> data = arguments.path(DataFlags.CALIBRATION);
        if (file.isPresent() && data.isPresent()) {
            throw arguments.usage("--statistics and --calibration are both given", "give one of them");
        }
        if (file.isPresent()) {
            return StatisticsFile.read(file.get());
        }
        if (data.isEmpty()) {
            throw arguments.usage(
                    "recipe " + plan.recipe().name() + " needs the activations' statistics",
                    "give --calibration FILE or --statistics FILE, or --recipe fp8-weight-only, which needs neither");
        }
        try (Dataset samples = DataFlags.open(arguments, data.get(), model, InputSpec.of(converter.source()));
                Progress progress = arguments.progress(screen)) {
            CalibrationOptions options = CalibrationOptions.defaults()
                    .withThreads(arguments.threads())
                    .withProgress((done, total) -> progress.update("calibrating", done, total, "samples"));
            return converter.calibrate(plan, samples, OpenedModel.digest(model), options);
        }
    }

    private static boolean compensated(Arguments arguments) {
        boolean data = arguments.path(DataFlags.CALIBRATION).isPresent();
        boolean asked = arguments.choice(ROUNDING, Map.of("gptq", true, "nearest", false), data);
        if (asked && !data) {
            throw arguments.usage(
                    "--rounding gptq needs samples", "give --calibration FILE, or take --rounding nearest");
        }
        return asked;
    }

    private static Map<String, SecondMoment> moments(
            Arguments arguments, Converter converter, Plan plan, Path model, Screen screen) throws IOException {
        Path data = arguments.requiredPath(DataFlags.CALIBRATION);
        try (Dataset samples = DataFlags.open(arguments, data, model, InputSpec.of(converter.source()));
                Progress progress = arguments.progress(screen)) {
            CalibrationOptions options = CalibrationOptions.defaults()
                    .withThreads(arguments.threads())
                    .withProgress((done, total) -> progress.update("measuring for rounding", done, total, "samples"));
            return converter.moments(plan, samples, options);
        }
    }

    /** The conversion with its layers compared on some of the calibration data; as it was when there is none. */
    private static Conversion measured(
            Arguments arguments, Converter converter, Conversion conversion, Path model, Screen screen)
            throws IOException {
        Optional<Path> data = arguments.path(DataFlags.CALIBRATION);
        if (data.isEmpty()) {
            return conversion;
        }
        try (Dataset samples = DataFlags.open(arguments, data.get(), model, InputSpec.of(converter.source()));
                Progress progress = arguments.progress(screen)) {
            EvaluationOptions options = EvaluationOptions.defaults()
                    .withThreads(arguments.threads())
                    .withProgress((done, total) -> progress.update("comparing layers", done, total, "samples"));
            return converter.measure(conversion, samples, options);
        }
    }

    private static Answer answer(
            Arguments arguments,
            Plan plan,
            ConversionOptions options,
            @Nullable Statistics statistics,
            List<LayerResult> layers,
            long originalBytes,
            long convertedBytes,
            long start) {
        return new Answer(
                arguments.operand(0).toString(),
                arguments.requiredPath(Flags.OUTPUT).toString(),
                arguments.text(REPORT).orElse(null),
                plan.recipe().name(),
                options.target().label(),
                plan.recipe().needsStatistics() ? options.calibrator().text() : null,
                statistics == null ? 0 : statistics.samplesDone(),
                LayerCount.of(plan),
                LayerCount.kept(plan),
                originalBytes,
                convertedBytes,
                layers.stream().mapToDouble(LayerResult::weightSqnrDb).min().orElse(Double.NaN),
                seconds(start),
                arguments.has(Flags.DRY_RUN));
    }

    private static void print(Answer answer, Arguments arguments, Screen screen) {
        if (arguments.has(Flags.JSON)) {
            screen.out().println(Json.page(answer));
            return;
        }
        Table table = new Table()
                .row("model", answer.model() + "  " + Table.bytes(answer.originalBytes()))
                .row("recipe", answer.recipe() + (answer.calibrator() == null ? "" : ", " + answer.calibrator()))
                .row("target", answer.target())
                .row(
                        "layers",
                        answer.layers().isEmpty()
                                ? "none found"
                                : answer.layers().stream()
                                        .map(LayerCount::toString)
                                        .collect(Collectors.joining(", ")));
        if (!answer.dryRun()) {
            table.row("written", answer.output() + "  " + Table.bytes(answer.convertedBytes()));
            table.row("time", Table.seconds(answer.seconds()));
        }
        if (answer.report() != null && !answer.dryRun()) {
            table.row("report", answer.report());
        }
        screen.out().print(table.text(0));
        printKept(answer.kept(), screen);
    }

    private static void printKept(List<LayerCount.Kept> kept, Screen screen) {
        if (kept.isEmpty()) {
            return;
        }
        Table table = new Table();
        kept.stream().limit(KEPT_SHOWN).forEach(k -> table.row(k.kind(), k.node(), k.reason()));
        screen.out().print("\nkept as they are\n" + table.text(2));
        if (kept.size() > KEPT_SHOWN) {
            screen.out().println("  and " + (kept.size() - KEPT_SHOWN) + " more (--json lists all)");
        }
    }

    private static double seconds(long startNanos) {
        return (System.nanoTime() - startNanos) / 1e9;
    }
}
