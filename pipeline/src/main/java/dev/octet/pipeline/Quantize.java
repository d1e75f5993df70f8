package dev.octet.pipeline;

import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.Conversion;
import dev.octet.converter.ConversionOptions;
import dev.octet.converter.ConversionReport;
import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
import dev.octet.converter.checkpoint.ConversionRequest;
import dev.octet.converter.checkpoint.Selection;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.data.InputSpec;
import dev.octet.converter.inspect.Inspection;
import dev.octet.converter.plan.LayerResult;
import dev.octet.converter.plan.Plan;
import dev.octet.converter.report.HtmlReport;
import dev.octet.pipeline.run.OpenedModel;
import dev.octet.quant.calibrate.Absmax;
import dev.octet.quant.calibrate.Calibrator;
import dev.octet.quant.layout.LayoutOptions;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.StatisticsFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.EnumSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * {@code octet quantize}: a model in FP8 with calibrated scales. A model with a graph is rewritten; a checkpoint of tensors is streamed to a
 * layout.
 *
 * <pre>{@code
 * Quantize.run(Quantize.GraphRequest.of(model, output).withSamples(SampleSource.of(samples)), Job.defaults());
 * Quantize.run(Quantize.CheckpointRequest.of(folder, output, Recipes.FP8_DYNAMIC), Job.defaults());
 * }</pre>
 */
public final class Quantize {
    private Quantize() {}

    /** How weights are rounded. */
    public enum Rounding {
        /** Each to the nearest code. */
        NEAREST,
        /** With compensation for the samples (GPTQ), which takes one more run over them. */
        GPTQ
    }

    /**
     * What to do with a model that has a graph.
     *
     * @param model an ONNX file, or a checkpoint whose graph follows from its configuration
     * @param output an ONNX file
     * @param target who will load it
     * @param keep layers whose names contain a match stay as they are
     * @param samples to calibrate, round and measure on; empty for none
     * @param statistics a file of {@link Calibrate}, in place of calibrating; empty for none
     * @param calibrator how clips follow from statistics
     * @param rounding empty for {@link Rounding#GPTQ} where there are samples, {@link Rounding#NEAREST} where there are none
     * @param report where a report is written; empty for none
     */
    public record GraphRequest(
            Path model,
            Path output,
            Recipe recipe,
            Target.Graph target,
            List<Pattern> keep,
            Optional<SampleSource> samples,
            Optional<Path> statistics,
            Calibrator calibrator,
            Optional<Rounding> rounding,
            Optional<Path> report) {
        public GraphRequest {
            keep = List.copyOf(keep);
        }

        /** {@link Recipes#GRAPH_FP8} for ONNX Runtime, absmax; the recipe needs samples or statistics. */
        public static GraphRequest of(Path model, Path output) {
            return new GraphRequest(
                    model,
                    output,
                    Recipes.GRAPH_FP8,
                    Target.GRAPHS.getFirst(),
                    List.of(),
                    Optional.empty(),
                    Optional.empty(),
                    new Absmax(),
                    Optional.empty(),
                    Optional.empty());
        }

        /** The same by another recipe, one of {@link Recipes#GRAPH}. */
        public GraphRequest withRecipe(Recipe newRecipe) {
            return new GraphRequest(
                    model, output, newRecipe, target, keep, samples, statistics, calibrator, rounding, report);
        }

        /** The same for another runtime. */
        public GraphRequest withTarget(Target.Graph newTarget) {
            return new GraphRequest(
                    model, output, recipe, newTarget, keep, samples, statistics, calibrator, rounding, report);
        }

        /** The same without the layers whose names contain a match. */
        public GraphRequest keeping(List<Pattern> patterns) {
            return new GraphRequest(
                    model, output, recipe, target, patterns, samples, statistics, calibrator, rounding, report);
        }

        /** The same, calibrated, rounded and measured on samples. */
        public GraphRequest withSamples(SampleSource newSamples) {
            return new GraphRequest(
                    model,
                    output,
                    recipe,
                    target,
                    keep,
                    Optional.of(newSamples),
                    statistics,
                    calibrator,
                    rounding,
                    report);
        }

        /** The same with scales from statistics. */
        public GraphRequest withStatistics(Path file) {
            return new GraphRequest(
                    model, output, recipe, target, keep, samples, Optional.of(file), calibrator, rounding, report);
        }

        /** The same with another calibrator. */
        public GraphRequest withCalibrator(Calibrator newCalibrator) {
            return new GraphRequest(
                    model, output, recipe, target, keep, samples, statistics, newCalibrator, rounding, report);
        }

        /** The same, rounded so. */
        public GraphRequest withRounding(Rounding newRounding) {
            return new GraphRequest(
                    model,
                    output,
                    recipe,
                    target,
                    keep,
                    samples,
                    statistics,
                    calibrator,
                    Optional.of(newRounding),
                    report);
        }

        /** The same with a report. */
        public GraphRequest withReport(Path file) {
            return new GraphRequest(
                    model, output, recipe, target, keep, samples, statistics, calibrator, rounding, Optional.of(file));
        }

        private Rounding roundingUsed() {
            return rounding.orElse(samples.isPresent() ? Rounding.GPTQ : Rounding.NEAREST);
        }
    }

    /**
     * What became of a graph, or would.
     *
     * @param calibrator null where the recipe has no static scales of activations
     * @param samples how many the statistics are of
     * @param layers how many of each kind were converted
     * @param kept layers that stay as they are, with their reasons
     * @param convertedBytes 0 when nothing was written
     * @param weightSqnrDbMin signal-to-noise ratio of the weight that lost most; NaN when none was quantised
     */
    public record GraphResult(
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

    /** What a user can choose of a checkpoint. */
    public enum Choice {
        /** Scales of the KV cache are written, which engines then keep in FP8; needs statistics. */
        KV_CACHE,
        /** Weights that hold a NaN or an infinity stay as they are, instead of stopping the job; costs one more reading. */
        ALLOW_NONFINITE,
        /** The scales are used again that {@link Dequantize} kept with the checkpoint. */
        KEEP_SCALES,
        /** Whatever would change a value is refused. */
        EXACT_ONLY
    }

    /**
     * What to do with a checkpoint of tensors.
     *
     * @param model a safetensors file, an index or a folder
     * @param output a folder to make, or a file for a checkpoint of one
     * @param recipe one of {@link Recipes#CHECKPOINT}
     * @param target the layout to write
     * @param selection which weights
     * @param layout choices within the layout; whether inputs are static follows from the statistics
     * @param statistics a file of {@link Calibrate}; empty for dynamic activations
     * @param calibrator how clips follow from statistics
     */
    public record CheckpointRequest(
            Path model,
            Path output,
            Recipe recipe,
            Target.Checkpoint target,
            Selection selection,
            LayoutOptions layout,
            Optional<Path> statistics,
            Calibrator calibrator,
            Set<Choice> choices) {
        public CheckpointRequest {
            choices = Set.copyOf(choices);
        }

        /** Every Linear, in the layout that most consumers of the recipe read, dynamic activations. */
        public static CheckpointRequest of(Path model, Path output, Recipe recipe) {
            return new CheckpointRequest(
                    model,
                    output,
                    recipe,
                    Target.usual(recipe),
                    Selection.ALL_LINEARS,
                    LayoutOptions.defaults(),
                    Optional.empty(),
                    new Absmax(),
                    Set.of());
        }

        /** The same in another layout. */
        public CheckpointRequest withTarget(Target.Checkpoint newTarget) {
            return new CheckpointRequest(
                    model, output, recipe, newTarget, selection, layout, statistics, calibrator, choices);
        }

        /** The same with other weights. */
        public CheckpointRequest withSelection(Selection newSelection) {
            return new CheckpointRequest(
                    model, output, recipe, target, newSelection, layout, statistics, calibrator, choices);
        }

        /** The same with other choices within the layout. */
        public CheckpointRequest withLayout(LayoutOptions newLayout) {
            return new CheckpointRequest(
                    model, output, recipe, target, selection, newLayout, statistics, calibrator, choices);
        }

        /** The same with static scales from statistics. */
        public CheckpointRequest withStatistics(Path file) {
            return new CheckpointRequest(
                    model, output, recipe, target, selection, layout, Optional.of(file), calibrator, choices);
        }

        /** The same with another calibrator. */
        public CheckpointRequest withCalibrator(Calibrator newCalibrator) {
            return new CheckpointRequest(
                    model, output, recipe, target, selection, layout, statistics, newCalibrator, choices);
        }

        /** The same with one more choice. */
        public CheckpointRequest with(Choice choice) {
            Set<Choice> more = EnumSet.of(choice);
            more.addAll(choices);
            return new CheckpointRequest(
                    model, output, recipe, target, selection, layout, statistics, calibrator, more);
        }

        boolean has(Choice choice) {
            return choices.contains(choice);
        }
    }

    /**
     * Quantises a checkpoint.
     *
     * @throws dev.octet.formats.error.OctetException when the checkpoint is malformed, or the layout cannot hold what the recipe makes
     * @throws IOException when reading or writing fails; finished files stay and the same call continues after them
     */
    public static CheckpointOutcome run(CheckpointRequest request, Job job) throws IOException {
        try (CheckpointConverter converter = CheckpointConverter.open(request.model())) {
            StaticScales scales = StaticScales.of(request, converter, job);
            ConversionRequest goal = new ConversionRequest.Quantize(
                    request.recipe(),
                    request.target().layout(),
                    request.layout().withStaticInputs(scales.inputs().isPresent()));
            CheckpointConverter.Request how = new CheckpointConverter.Request(
                    request.selection(),
                    scales.byModule(),
                    scales.cache(),
                    request.has(Choice.ALLOW_NONFINITE),
                    request.has(Choice.KEEP_SCALES),
                    request.has(Choice.EXACT_ONLY));
            return new CheckpointWork(converter, request.output(), job).run(goal, how, scales);
        }
    }

    /**
     * Quantises a model with a graph: plan, calibrate, rewrite and lower, measure, save, report.
     *
     * @throws dev.octet.formats.error.OctetException when the model is malformed, or the recipe needs statistics that are not there
     * @throws IOException when reading or writing fails
     */
    public static GraphResult run(GraphRequest request, Job job) throws IOException {
        job.refuseExisting(request.output());
        request.report().ifPresent(job::refuseExisting);
        if (request.roundingUsed() == Rounding.GPTQ && request.samples().isEmpty()) {
            throw job.invalid("--rounding gptq needs samples", "give --calibration FILE, or take --rounding nearest");
        }
        Stopwatch watch = new Stopwatch();
        try (ModelSource source = ModelSource.open(request.model());
                Converter converter = source.converter()) {
            Plan plan = converter.plan(request.recipe(), request.keep());
            long bytes = Inspection.fileBytes(request.model());
            watch.step("import");
            if (job.dryRun()) {
                return result(request, plan, List.of(), new Sizes(bytes, 0), 0, watch, true);
            }
            checkStatistics(request, job);
            if (request.samples().isEmpty()) {
                return convert(request, new QuantizeSteps(converter, plan, job, "samples"), null, bytes, watch);
            }
            try (Dataset samples =
                    request.samples().get().open(request.model(), InputSpec.of(converter.source()), job)) {
                return convert(request, new QuantizeSteps(converter, plan, job, "samples"), samples, bytes, watch);
            }
        }
    }

    private static void checkStatistics(GraphRequest request, Job job) {
        if (!request.recipe().needsStatistics()) {
            return;
        }
        if (request.statistics().isPresent() && request.samples().isPresent()) {
            throw job.invalid("--statistics and --calibration are both given", "give one of them");
        }
        if (request.statistics().isEmpty() && request.samples().isEmpty()) {
            throw job.invalid(
                    "recipe " + request.recipe().name() + " needs the activations' statistics",
                    "give --calibration FILE or --statistics FILE, or --recipe fp8-weight-only, which needs neither");
        }
    }

    private static GraphResult convert(
            GraphRequest request, QuantizeSteps steps, @Nullable Dataset samples, long bytes, Stopwatch watch)
            throws IOException {
        Statistics statistics = statistics(request, steps, samples);
        watch.step("calibrate");
        ConversionOptions options = ConversionOptions.defaults()
                .withTarget(request.target().runtime())
                .withCalibrator(request.calibrator())
                .withThreads(steps.job().threads());
        if (samples != null && request.roundingUsed() == Rounding.GPTQ) {
            options = options.withMoments(steps.moments(samples));
        }
        Conversion converted = steps.convert(statistics, options);
        watch.step("convert");
        Conversion conversion = samples == null ? converted : steps.measure(converted, samples);
        watch.step("compare layers");
        conversion.save(request.output());
        watch.step("write");
        Sizes sizes = new Sizes(bytes, Files.size(request.output()));
        if (request.report().isPresent()) {
            HtmlReport.write(
                    ConversionReport.of(
                            conversion,
                            String.valueOf(request.model().getFileName()),
                            request.calibrator().text(),
                            sizes.original(),
                            sizes.converted(),
                            statistics,
                            watch.timings()),
                    request.report().get());
        }
        long calibrated = statistics == null ? 0 : statistics.samplesDone();
        return result(request, conversion.plan(), conversion.layers(), sizes, calibrated, watch, false);
    }

    private static @Nullable Statistics statistics(GraphRequest request, QuantizeSteps steps, @Nullable Dataset samples)
            throws IOException {
        if (!request.recipe().needsStatistics()) {
            return null;
        }
        if (request.statistics().isPresent()) {
            return StatisticsFile.read(request.statistics().get());
        }
        if (samples == null) {
            return null; // refused before
        }
        return steps.calibrate(
                samples, OpenedModel.digest(request.model()), steps.job().calibration("calibrating", "samples"));
    }

    /** Bytes of the files. */
    private record Sizes(long original, long converted) {}

    private static GraphResult result(
            GraphRequest request,
            Plan plan,
            List<LayerResult> layers,
            Sizes sizes,
            long samples,
            Stopwatch watch,
            boolean dryRun) {
        return new GraphResult(
                request.model().toString(),
                request.output().toString(),
                request.report().map(Path::toString).orElse(null),
                plan.recipe().name(),
                request.target().label(),
                plan.recipe().needsStatistics() ? request.calibrator().text() : null,
                samples,
                LayerCount.of(plan),
                LayerCount.kept(plan),
                sizes.original(),
                sizes.converted(),
                layers.stream().mapToDouble(LayerResult::weightSqnrDb).min().orElse(Double.NaN),
                watch.seconds(),
                dryRun);
    }
}
