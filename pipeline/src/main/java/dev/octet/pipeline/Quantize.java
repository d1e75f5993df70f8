package dev.octet.pipeline;

import dev.octet.converter.Conversion;
import dev.octet.converter.ConversionOptions;
import dev.octet.converter.ConversionReport;
import dev.octet.converter.Converter;
import dev.octet.converter.ModelSource;
import dev.octet.converter.checkpoint.LinearNames;
import dev.octet.converter.checkpoint.Selection;
import dev.octet.converter.checkpoint.TensorRole;
import dev.octet.converter.data.Dataset;
import dev.octet.converter.data.InputSpec;
import dev.octet.converter.evaluate.LayerComparison;
import dev.octet.converter.inspect.Inspection;
import dev.octet.converter.lower.OnnxTarget;
import dev.octet.converter.plan.Decision;
import dev.octet.converter.plan.LayerKind;
import dev.octet.converter.plan.LayerResult;
import dev.octet.converter.plan.Plan;
import dev.octet.converter.report.HtmlReport;
import dev.octet.converter.report.ReportData;
import dev.octet.converter.report.RunFacts;
import dev.octet.converter.runtime.ModuleTaps;
import dev.octet.converter.transform.GraphSmoothing;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.Sha256;
import dev.octet.formats.file.TemporaryFolder;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.calibrate.Absmax;
import dev.octet.quant.calibrate.Calibrator;
import dev.octet.quant.gptq.GptqOptions;
import dev.octet.quant.gptq.SecondMoment;
import dev.octet.quant.gptq.SecondMomentsFile;
import dev.octet.quant.layout.AttentionScheme;
import dev.octet.quant.layout.LayoutOptions;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.scale.ScaleSearch;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.StatisticsFile;
import dev.octet.quant.transform.Transform;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
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
    /** Embeddings are worth a note from this part of a model on: a twentieth. */
    private static final int LEAST_TABLES = 20;

    /** Metadata of an ONNX file: names of the weights that a mix left as they are, with commas. */
    private static final String LEFT = "octet.mix.kept";

    private Quantize() {}

    /** How weights are rounded. */
    public enum Rounding {
        /** Each to the nearest code. */
        NEAREST,
        /** With compensation for the samples (GPTQ), by the second moments of the layers' inputs. */
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
     * @param calibrator how clips follow from statistics; empty for the {@linkplain Calibrator#usual usual} one of the recipe
     * @param rounding empty for {@link Rounding#GPTQ} where there are samples, or second moments next to the statistics; else {@link
     *     Rounding#NEAREST}
     * @param others other layers than Linears that are quantised, each with one of its {@linkplain LayerKind#forms forms}
     * @param report where a report is written; empty for none
     * @param left Linears that stay as they are, too, by the names of their weights, with the reasons
     * @param weightOnly Linears whose names contain a match have their weights quantised alone
     * @param saturation what weights of 8 bits do about products that saturate on processors without VNNI
     * @param transforms what is done to the model first, in this order, so that it loses less; only {@link Transform.SmoothQuant}
     */
    public record GraphRequest(
            Path model,
            Path output,
            Recipe recipe,
            Target.Graph target,
            List<Pattern> keep,
            Optional<SampleSource> samples,
            Optional<Path> statistics,
            Optional<Calibrator> calibrator,
            Optional<Rounding> rounding,
            Map<LayerKind, QuantType> others,
            Optional<Path> report,
            Map<String, String> left,
            List<Pattern> weightOnly,
            ConversionOptions.Saturation saturation,
            List<Transform> transforms) {
        public GraphRequest {
            keep = List.copyOf(keep);
            others = Map.copyOf(others);
            weightOnly = List.copyOf(weightOnly);
            transforms = List.copyOf(transforms);
            left = Collections.unmodifiableMap(new LinkedHashMap<>(left));
        }

        /** {@link Recipes#GRAPH_FP8} for ONNX Runtime; the recipe needs samples or statistics. */
        public static GraphRequest of(Path model, Path output) {
            return new GraphRequest(
                    model,
                    output,
                    Recipes.GRAPH_FP8,
                    Target.GRAPHS.getFirst(),
                    List.of(),
                    Optional.empty(),
                    Optional.empty(),
                    Optional.empty(),
                    Optional.empty(),
                    Map.of(),
                    Optional.empty(),
                    Map.of(),
                    List.of(),
                    ConversionOptions.Saturation.ALLOWED,
                    List.of());
        }

        /** The same by another recipe, one of {@link Recipes#GRAPH}. */
        public GraphRequest withRecipe(Recipe newRecipe) {
            return new GraphRequest(
                    model,
                    output,
                    newRecipe,
                    target,
                    keep,
                    samples,
                    statistics,
                    calibrator,
                    rounding,
                    others,
                    report,
                    left,
                    weightOnly,
                    saturation,
                    transforms);
        }

        /** The same for another runtime. */
        public GraphRequest withTarget(Target.Graph newTarget) {
            return new GraphRequest(
                    model,
                    output,
                    recipe,
                    newTarget,
                    keep,
                    samples,
                    statistics,
                    calibrator,
                    rounding,
                    others,
                    report,
                    left,
                    weightOnly,
                    saturation,
                    transforms);
        }

        /** The same without the layers whose names contain a match. */
        public GraphRequest keeping(List<Pattern> patterns) {
            return new GraphRequest(
                    model,
                    output,
                    recipe,
                    target,
                    patterns,
                    samples,
                    statistics,
                    calibrator,
                    rounding,
                    others,
                    report,
                    left,
                    weightOnly,
                    saturation,
                    transforms);
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
                    others,
                    report,
                    left,
                    weightOnly,
                    saturation,
                    transforms);
        }

        /** The same with scales from statistics. */
        public GraphRequest withStatistics(Path file) {
            return new GraphRequest(
                    model,
                    output,
                    recipe,
                    target,
                    keep,
                    samples,
                    Optional.of(file),
                    calibrator,
                    rounding,
                    others,
                    report,
                    left,
                    weightOnly,
                    saturation,
                    transforms);
        }

        /** The same with another calibrator. */
        public GraphRequest withCalibrator(Calibrator newCalibrator) {
            return new GraphRequest(
                    model,
                    output,
                    recipe,
                    target,
                    keep,
                    samples,
                    statistics,
                    Optional.of(newCalibrator),
                    rounding,
                    others,
                    report,
                    left,
                    weightOnly,
                    saturation,
                    transforms);
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
                    others,
                    report,
                    left,
                    weightOnly,
                    saturation,
                    transforms);
        }

        /** The same with these layers quantised, too, each to one of its {@linkplain LayerKind#forms forms}; for ONNX Runtime. */
        public GraphRequest withOthers(Map<LayerKind, QuantType> kinds) {
            return new GraphRequest(
                    model,
                    output,
                    recipe,
                    target,
                    keep,
                    samples,
                    statistics,
                    calibrator,
                    rounding,
                    kinds,
                    report,
                    left,
                    weightOnly,
                    saturation,
                    transforms);
        }

        /** The same with a report. */
        public GraphRequest withReport(Path file) {
            return new GraphRequest(
                    model,
                    output,
                    recipe,
                    target,
                    keep,
                    samples,
                    statistics,
                    calibrator,
                    rounding,
                    others,
                    Optional.of(file),
                    left,
                    weightOnly,
                    saturation,
                    transforms);
        }

        /** The same without these Linears, by the names of their weights, with the reasons; the file's metadata then name them. */
        public GraphRequest leaving(Map<String, String> reasons) {
            return new GraphRequest(
                    model,
                    output,
                    recipe,
                    target,
                    keep,
                    samples,
                    statistics,
                    calibrator,
                    rounding,
                    others,
                    report,
                    reasons,
                    weightOnly,
                    saturation,
                    transforms);
        }

        /** The same with the weights alone quantised of the Linears whose names contain a match. */
        public GraphRequest withWeightsAlone(List<Pattern> patterns) {
            return new GraphRequest(
                    model,
                    output,
                    recipe,
                    target,
                    keep,
                    samples,
                    statistics,
                    calibrator,
                    rounding,
                    others,
                    report,
                    left,
                    patterns,
                    saturation,
                    transforms);
        }

        /** The same with weights of 8 bits that deal with saturation so. */
        public GraphRequest withSaturation(ConversionOptions.Saturation newSaturation) {
            return new GraphRequest(
                    model,
                    output,
                    recipe,
                    target,
                    keep,
                    samples,
                    statistics,
                    calibrator,
                    rounding,
                    others,
                    report,
                    left,
                    weightOnly,
                    newSaturation,
                    transforms);
        }

        /** The same with transforms of the model before it is quantised. */
        public GraphRequest withTransforms(List<Transform> newTransforms) {
            return new GraphRequest(
                    model,
                    output,
                    recipe,
                    target,
                    keep,
                    samples,
                    statistics,
                    calibrator,
                    rounding,
                    others,
                    report,
                    left,
                    weightOnly,
                    saturation,
                    newTransforms);
        }

        /** Whether scales of activations come from calibration: by the recipe, or by the form of another kind of layers. */
        boolean needsStatistics() {
            return recipe.needsStatistics()
                    || others.entrySet().stream()
                            .anyMatch(e -> Objects.requireNonNull(
                                            e.getKey().forms().get(e.getValue()))
                                    .needsStatistics());
        }

        /** How clips follow from statistics: what was chosen, or the usual one of the recipe. */
        public Calibrator calibratorUsed() {
            return calibrator.orElseGet(() -> {
                OperandSpec input = recipe.input();
                return input == null ? new Absmax() : Calibrator.usual(input.type());
            });
        }
    }

    /**
     * What became of a graph, or would.
     *
     * @param calibrator null where the recipe has no static scales of activations
     * @param rounding how weights are rounded: {@code gptq} or {@code nearest}
     * @param roundingReason why so, one phrase
     * @param samples how many the statistics are of
     * @param layers how many of each kind were converted
     * @param kept layers that stay as they are, with their reasons
     * @param notes what a user should know
     * @param convertedBytes 0 when nothing was written
     * @param weightSqnrDbMin signal-to-noise ratio of the weight that lost most; NaN when none was quantised
     * @param products how products of integers are computed; null for weights in floats
     * @param layerSqnrDb signal-to-noise ratio at the output of each FP8 Linear against the original's, in graph order, over the first 32
     *     samples; includes the error of all layers before it; empty without samples
     * @param predicted errors of the Linears, each alone, predicted from second moments before anything is written, in a dry run or for a
     *     report, with what samples gave beside them; null without second moments
     */
    public record GraphResult(
            String model,
            String output,
            @Nullable String report,
            String recipe,
            String target,
            @Nullable String calibrator,
            String rounding,
            String roundingReason,
            long samples,
            List<LayerCount> layers,
            List<LayerCount.Kept> kept,
            List<String> notes,
            long originalBytes,
            long convertedBytes,
            double weightSqnrDbMin,
            @Nullable IntegerProducts products,
            Map<String, Double> layerSqnrDb,
            Schemes.@Nullable Scheme predicted,
            double seconds,
            boolean dryRun) {}

    /** What a user can choose of a checkpoint. */
    public enum Choice {
        /** Weights that hold a NaN or an infinity stay as they are, instead of stopping the job; costs one more reading. */
        ALLOW_NONFINITE,
        /** The scales are used again that {@link Dequantize} kept with the checkpoint. */
        KEEP_SCALES,
        /** Static scales of inputs are those that FP8 training by Transformer Engine left in the checkpoint, in place of statistics. */
        TRAINING_SCALES,
        /** Whatever would change a value is refused. */
        EXACT_ONLY,
        /** Transformed weights are written as floats of the model's type: nothing is quantised, the recipe counts for AWQ only. */
        FLOATS
    }

    /**
     * How the weights of a checkpoint are rounded.
     *
     * @param method {@link Rounding#GPTQ} needs the second moments next to the statistics
     * @param search of the scales; {@link ScaleSearch#HESSIAN} needs second moments, too
     * @param gptq options of GPTQ
     */
    public record WeightRounds(Rounding method, ScaleSearch search, GptqOptions gptq) {
        /** To nearest, by the usual scales. */
        public static final WeightRounds NEAREST =
                new WeightRounds(Rounding.NEAREST, ScaleSearch.AMAX, GptqOptions.defaults());

        /** With compensation, by the usual scales. */
        public static final WeightRounds GPTQ =
                new WeightRounds(Rounding.GPTQ, ScaleSearch.AMAX, GptqOptions.defaults());

        /** By the usual scales. */
        public static WeightRounds of(Rounding rounding) {
            return rounding == Rounding.GPTQ ? GPTQ : NEAREST;
        }

        /** {@code nearest} or {@code gptq}, and how scales are searched. */
        String text() {
            return method.name().toLowerCase(Locale.ROOT)
                    + (search == ScaleSearch.AMAX ? "" : ", scales by " + search.label());
        }

        /** The same with searched scales. */
        public WeightRounds with(ScaleSearch newSearch) {
            return new WeightRounds(method, newSearch, gptq);
        }

        /** The same with other options of GPTQ. */
        public WeightRounds with(GptqOptions options) {
            return new WeightRounds(method, search, options);
        }

        boolean needsMoments() {
            return method == Rounding.GPTQ || search == ScaleSearch.HESSIAN;
        }

        /** As users asked for it: {@code --rounding gptq}. */
        private String option() {
            return method == Rounding.GPTQ ? "--rounding gptq" : "--scale-search hessian";
        }
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
     * @param report where a report is written; empty for none
     * @param recipes of weights that have another one than {@code recipe}, by their names
     * @param transforms what is done to the weights before, in this order
     * @param rounding how weights are rounded
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
            Set<Choice> choices,
            AttentionScheme attention,
            Optional<Path> report,
            Map<String, Recipe> recipes,
            List<Transform> transforms,
            WeightRounds rounding) {
        public CheckpointRequest {
            transforms = List.copyOf(transforms);
            choices = Set.copyOf(choices);
            recipes = Map.copyOf(recipes);
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
                    Set.of(),
                    AttentionScheme.NONE,
                    Optional.empty(),
                    Map.of(),
                    List.of(),
                    WeightRounds.NEAREST);
        }

        /** The same from another model to another output, without a page. */
        CheckpointRequest between(Path newModel, Path newOutput) {
            return new CheckpointRequest(
                    newModel,
                    newOutput,
                    recipe,
                    target,
                    selection,
                    layout,
                    statistics,
                    calibrator,
                    choices,
                    attention,
                    Optional.empty(),
                    recipes,
                    transforms,
                    rounding);
        }

        /** The same in another layout. */
        public CheckpointRequest withTarget(Target.Checkpoint newTarget) {
            return new CheckpointRequest(
                    model,
                    output,
                    recipe,
                    newTarget,
                    selection,
                    layout,
                    statistics,
                    calibrator,
                    choices,
                    attention,
                    report,
                    recipes,
                    transforms,
                    rounding);
        }

        /** The same with other weights. */
        public CheckpointRequest withSelection(Selection newSelection) {
            return new CheckpointRequest(
                    model,
                    output,
                    recipe,
                    target,
                    newSelection,
                    layout,
                    statistics,
                    calibrator,
                    choices,
                    attention,
                    report,
                    recipes,
                    transforms,
                    rounding);
        }

        /** The same with other choices within the layout. */
        public CheckpointRequest withLayout(LayoutOptions newLayout) {
            return new CheckpointRequest(
                    model,
                    output,
                    recipe,
                    target,
                    selection,
                    newLayout,
                    statistics,
                    calibrator,
                    choices,
                    attention,
                    report,
                    recipes,
                    transforms,
                    rounding);
        }

        /** The same with static scales from statistics. */
        public CheckpointRequest withStatistics(Path file) {
            return new CheckpointRequest(
                    model,
                    output,
                    recipe,
                    target,
                    selection,
                    layout,
                    Optional.of(file),
                    calibrator,
                    choices,
                    attention,
                    report,
                    recipes,
                    transforms,
                    rounding);
        }

        /** The same with another calibrator. */
        public CheckpointRequest withCalibrator(Calibrator newCalibrator) {
            return new CheckpointRequest(
                    model,
                    output,
                    recipe,
                    target,
                    selection,
                    layout,
                    statistics,
                    newCalibrator,
                    choices,
                    attention,
                    report,
                    recipes,
                    transforms,
                    rounding);
        }

        /** The same with one more choice. */
        public CheckpointRequest with(Choice choice) {
            Set<Choice> more = EnumSet.of(choice);
            more.addAll(choices);
            return new CheckpointRequest(
                    model,
                    output,
                    recipe,
                    target,
                    selection,
                    layout,
                    statistics,
                    calibrator,
                    more,
                    attention,
                    report,
                    recipes,
                    transforms,
                    rounding);
        }

        /** The same with a report, for which the result is read again and compared with the original. */
        public CheckpointRequest withReport(Path file) {
            return new CheckpointRequest(
                    model,
                    output,
                    recipe,
                    target,
                    selection,
                    layout,
                    statistics,
                    calibrator,
                    choices,
                    attention,
                    Optional.of(file),
                    recipes,
                    transforms,
                    rounding);
        }

        /** The same with other recipes for some weights, by their names, where the layout can say so. */
        public CheckpointRequest withRecipes(Map<String, Recipe> others) {
            return new CheckpointRequest(
                    model,
                    output,
                    recipe,
                    target,
                    selection,
                    layout,
                    statistics,
                    calibrator,
                    choices,
                    attention,
                    report,
                    others,
                    transforms,
                    rounding);
        }

        /** The same with transforms of the weights before they are quantised. */
        public CheckpointRequest withTransforms(List<Transform> newTransforms) {
            return new CheckpointRequest(
                    model,
                    output,
                    recipe,
                    target,
                    selection,
                    layout,
                    statistics,
                    calibrator,
                    choices,
                    attention,
                    report,
                    recipes,
                    newTransforms,
                    rounding);
        }

        /** The same with weights rounded so. */
        public CheckpointRequest withRounding(WeightRounds newRounding) {
            return new CheckpointRequest(
                    model,
                    output,
                    recipe,
                    target,
                    selection,
                    layout,
                    statistics,
                    calibrator,
                    choices,
                    attention,
                    report,
                    recipes,
                    transforms,
                    newRounding);
        }

        /** The same with scales of attention, with which engines then keep the KV cache in FP8; they need statistics. */
        public CheckpointRequest withAttention(AttentionScheme newAttention) {
            return new CheckpointRequest(
                    model,
                    output,
                    recipe,
                    target,
                    selection,
                    layout,
                    statistics,
                    calibrator,
                    choices,
                    newAttention,
                    report,
                    recipes,
                    transforms,
                    rounding);
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
        try (CheckpointGoal goal = CheckpointGoal.of(request, job)) {
            TransformedCheckpoint transformed = goal.transformed();
            CheckpointOutcome outcome = new CheckpointWork(goal, request.output(), job)
                    .run(request.report())
                    .withTransform(transformed.transform());
            Path statistics = request.statistics().orElse(null);
            boolean plain = transformed.transform().transforms().isEmpty(); // they would change what the Linears read
            boolean predicts = job.dryRun() && !request.has(Choice.FLOATS) && plain;
            return predicts && statistics != null && new MomentsFile(statistics).exists()
                    ? outcome.withPredicted(Schemes.predict(
                            new Schemes.Request(request.model(), statistics, request.calibrator(), List.of())
                                    .only(outcome.weights().stream()
                                            .map(CheckpointOutcome.Weight::name)
                                            .collect(Collectors.toSet())),
                            request.recipe(),
                            request.rounding(),
                            job))
                    : outcome;
        }
    }

    static @Nullable SecondMomentsFile moments(CheckpointRequest request, Job job) throws IOException {
        if (!request.rounding().needsMoments()) {
            return null;
        }
        String option = request.rounding().option();
        String command = "octet calibrate " + request.model() + " -o FILE --data DATA --second-moments";
        Path statistics = request.statistics()
                .orElseThrow(() -> job.invalid(
                        option + " needs second moments of the layers' inputs",
                        "make them with '" + command + "', then give --statistics FILE"));
        MomentsFile file = new MomentsFile(statistics);
        if (!file.exists()) {
            throw job.invalid(
                    option + " needs second moments of the layers' inputs, and there is no " + file.path(),
                    "make them with '" + command + "', or leave " + option + " out");
        }
        return file.open(StatisticsFile.read(statistics));
    }

    /**
     * Quantises a model with a graph: plan, calibrate, rewrite and lower, measure, save, report.
     *
     * @throws dev.octet.formats.error.OctetException when the model is malformed, or the recipe needs statistics that are not there
     * @throws IOException when reading or writing fails
     */
    public static GraphResult run(GraphRequest request, Job job) throws IOException {
        job.requireOnnxName(request.output());
        job.refuseExisting(request.output());
        request.report().ifPresent(job::refuseExisting);
        boolean forRuntime = request.others().entrySet().stream()
                .anyMatch(e -> e.getKey() != LayerKind.ATTENTION || e.getValue().isInteger());
        if (forRuntime && request.target().runtime() == OnnxTarget.TENSORRT) {
            throw job.invalid(
                    "--embeddings, --convolutions and --attention int8 are for --target onnxruntime",
                    "leave them out: TensorRT takes 8-bit integers only between QuantizeLinear and DequantizeLinear,"
                            + " and convolutions in 8-bit floats only with their inputs");
        }
        request.target().runtime().suited(request.recipe()); // refused before anything is measured
        RoundingUsed rounding = RoundingUsed.of(request, job);
        checkTransforms(request, job);
        Stopwatch watch = new Stopwatch();
        try (ModelSource source = ModelSource.open(request.model());
                Converter converter = source.converter()) {
            Plan plan = plan(converter, request);
            long bytes = Inspection.fileBytes(request.model());
            watch.step("import");
            Work work = new Work(
                    request, rounding, source, new QuantizeSteps(converter, plan, job, "samples"), bytes, watch);
            if (job.dryRun()) {
                return work.planned();
            }
            if (work.nothing().isPresent()) {
                throw work.nothing().get();
            }
            checkStatistics(request, plan, job);
            if (request.samples().isEmpty()) {
                return request.transforms().isEmpty() ? work.convert(null) : work.smoothed(null);
            }
            try (Dataset samples =
                    request.samples().get().open(request.model(), InputSpec.of(converter.source()), job)) {
                return request.transforms().isEmpty() ? work.convert(samples) : work.smoothed(samples);
            }
        }
    }

    private static Plan plan(Converter converter, GraphRequest request) {
        Plan plan = converter.plan(request.recipe(), request.keep(), request.others());
        Map<String, String> reasons = new LinkedHashMap<>();
        plan.converted(LayerKind.LINEAR).stream()
                .filter(d -> request.left().containsKey(d.weight()))
                .forEach(d -> reasons.put(d.node(), request.left().getOrDefault(d.weight(), "")));
        return plan.keeping(reasons).withWeightsAlone(request.weightOnly());
    }

    private static void checkTransforms(GraphRequest request, Job job) {
        for (Transform transform : request.transforms()) {
            if (!(transform instanceof Transform.SmoothQuant)) {
                throw job.invalid(
                        "--transform " + transform.text() + " is for checkpoints",
                        "of models with a graph, give --transform smoothquant[:ALPHA]");
            }
        }
        if (request.transforms().isEmpty()) {
            return;
        }
        if (request.recipe().input() == null) {
            throw job.invalid(
                    "--transform smoothquant is for recipes that quantise inputs, and "
                            + request.recipe().name() + " leaves them as they are",
                    "leave it out");
        }
        if (request.samples().isEmpty() && request.statistics().isEmpty() && !job.dryRun()) {
            throw job.invalid(
                    "--transform smoothquant needs the largest magnitudes of the layers' inputs",
                    "give --calibration FILE or --statistics FILE");
        }
    }

    private static void checkStatistics(GraphRequest request, Plan plan, Job job) {
        if (plan.taps().isEmpty()) { // of a model of convolutions, whatever the recipe of Linears
            return;
        }
        if (request.statistics().isPresent() && request.samples().isPresent()) {
            throw job.invalid("--statistics and --calibration are both given", "give one of them");
        }
        if (request.statistics().isEmpty() && request.samples().isEmpty()) {
            if (!request.recipe().needsStatistics()) {
                throw job.invalid(
                        "--attention fp8 needs the activations' statistics",
                        "give --calibration FILE or --statistics FILE, or --attention int8, which needs neither");
            }
            throw job.invalid(
                    "recipe " + request.recipe().name() + " needs the activations' statistics",
                    "give --calibration FILE or --statistics FILE, or --recipe fp8-weight-only, which needs neither"
                            + " (of integers: int8-dynamic)");
        }
    }

    /**
     * A graph on its way.
     *
     * @param source the original
     * @param bytes of its file
     */
    private record Work(
            GraphRequest request,
            RoundingUsed rounding,
            ModelSource source,
            QuantizeSteps steps,
            long bytes,
            Stopwatch watch) {
        /** Why nothing would be quantised; empty where something is. */
        Optional<UnsupportedModelException> nothing() {
            Optional<UnsupportedModelException> nothing = steps.plan().nothing();
            return nothing.flatMap(_ -> QuantizedAlready.refusal(steps.converter(), source.path(), "quantise"))
                    .or(() -> nothing);
        }

        private List<String> notes(Plan plan) {
            List<String> notes = new ArrayList<>();
            nothing().ifPresent(e -> notes.add(e.what()));
            int quantized = QuantizedAlready.linears(steps.converter());
            if (quantized > 0 && notes.isEmpty()) {
                notes.add(quantized + " Linears were quantised before and stay as they are");
            }
            List<String> alone = plan.converted(LayerKind.LINEAR).stream()
                    .filter(d -> plan.others().containsKey(d.node()))
                    .map(Decision.Converted::weight)
                    .toList();
            if (!alone.isEmpty()) {
                notes.add("weights alone, inputs stay in floats: " + String.join(", ", alone));
            }
            tables(plan).ifPresent(notes::add);
            List<String> heads = plan.converted(LayerKind.LINEAR).stream()
                    .map(Decision.Converted::weight)
                    .filter(w -> LinearNames.role(w, Shape.of(1, 1)) == TensorRole.HEAD)
                    .toList();
            if (!heads.isEmpty()) {
                notes.add(
                        "quantised, too: " + String.join(", ", heads) + " (checkpoints keep heads, here --keep does)");
            }
            return notes;
        }

        /** What a file in integers would save by its embeddings; empty where they are small, or in integers already. */
        private Optional<String> tables(Plan plan) {
            if (!plan.recipe().weight().type().isInteger()
                    || request.others().containsKey(LayerKind.EMBEDDING)
                    || request.target().runtime() != OnnxTarget.ONNXRUNTIME) {
                return Optional.empty();
            }
            long tables = steps
                    .converter()
                    .plan(request.recipe(), List.of(), Map.of(LayerKind.EMBEDDING, QuantType.INT8))
                    .converted(LayerKind.EMBEDDING)
                    .stream()
                    .map(Decision.Converted::weight)
                    .distinct()
                    .map(w ->
                            steps.converter().canonical().graph().initializers().get(w))
                    .filter(Objects::nonNull)
                    .mapToLong(i -> i.tensor().orElseThrow().bytes().byteSize())
                    .sum();
            return tables * LEAST_TABLES < bytes
                    ? Optional.empty()
                    : Optional.of("embeddings stay in floats, " + 100 * tables / bytes
                            + " % of the model: --embeddings int8 stores them in a quarter");
        }

        GraphResult planned() throws IOException {
            return result(steps.plan(), List.of(), List.of(), predicted(null), 0, 0);
        }

        /** What the second moments next to the statistics foretell; null without them, and of a model that a transform changed. */
        private Schemes.@Nullable Scheme predicted(@Nullable Path taken) throws IOException {
            Path file = taken == null ? request.statistics().orElse(null) : taken;
            if (file == null
                    || !request.transforms().isEmpty()
                    || !new MomentsFile(file).exists()
                    || nothing().isPresent()) {
                return null;
            }
            Schemes.Request what = new Schemes.Request(request.model(), file, request.calibratorUsed(), request.keep());
            return request.samples().isPresent() && !steps.job().dryRun()
                    ? Schemes.measure(
                            what,
                            request.recipe(),
                            WeightRounds.of(rounding.rounding()),
                            request.samples().get(),
                            steps.job())
                    : Schemes.predict(what, request.recipe(), WeightRounds.of(rounding.rounding()), steps.job());
        }

        /**
         * Smooths the model and goes on with what it has become: measured before and after, or solved from the statistics of the original.
         *
         * @param samples null for the latter
         */
        GraphResult smoothed(@Nullable Dataset samples) throws IOException {
            Transform.SmoothQuant how =
                    (Transform.SmoothQuant) request.transforms().getFirst();
            Statistics seen =
                    ModuleTaps.withValues(steps.converter().canonical(), samples == null ? given() : measured(samples));
            watch.step("measure for smoothing");
            Converter.Smoothed smoothed = steps.converter().smoothed(steps.plan(), seen, how);
            try (Converter changed = smoothed.converter()) {
                Plan plan = Quantize.plan(changed, request);
                Work work = new Work(
                        request,
                        rounding,
                        source,
                        new QuantizeSteps(changed, plan, steps.job(), steps.unit()),
                        bytes,
                        watch);
                return samples == null ? work.convert(null, solved(seen, smoothed.inputs())) : work.convert(samples);
            }
        }

        private Statistics measured(Dataset samples) throws IOException {
            try (TemporaryFolder folder = TemporaryFolder.create("statistics")) {
                Path taken = folder.path().resolve("model.stats");
                steps.calibrateInto(taken, samples, source, false);
                return StatisticsFile.read(taken);
            }
        }

        /** The user's statistics, which are of this model and of all samples. */
        private Statistics given() throws IOException {
            Path file = request.statistics().orElseThrow();
            Statistics statistics = StatisticsFile.read(file);
            CalibratedInputs.requireOf(statistics, source.digest(), request.model(), file);
            Converter.requireComplete(statistics);
            return statistics;
        }

        /** What the statistics of the original tell of the smoothed model. */
        private Evidence solved(Statistics seen, Map<String, GraphSmoothing.Changed> inputs) throws IOException {
            Map<String, SecondMoment> moments = new LinkedHashMap<>();
            if (rounding.rounding() == Rounding.GPTQ) {
                moments(request.statistics().orElseThrow()).forEach((value, moment) -> {
                    GraphSmoothing.Changed to = inputs.get(value);
                    moments.put(
                            to == null ? value : to.value(),
                            to == null ? moment : to.change().of(moment));
                });
                watch.step("second moments");
            }
            Statistics ranges =
                    request.needsStatistics() ? ChangedStatistics.of(seen, inputs, request.calibratorUsed()) : null;
            return new Evidence(ranges, moments, null);
        }

        GraphResult convert(@Nullable Dataset samples) throws IOException {
            if (samples == null) {
                return convert(null, request.statistics().orElse(null));
            }
            try (TemporaryFolder folder = TemporaryFolder.create("statistics")) {
                Path taken = folder.path().resolve("model.stats");
                steps.calibrateInto(
                        taken,
                        samples,
                        source,
                        rounding.rounding() == Rounding.GPTQ || request.report().isPresent());
                return convert(samples, taken);
            }
        }

        /**
         * What a conversion goes by.
         *
         * @param statistics null for a recipe without
         * @param moments empty but for rounding with compensation
         * @param file where both are of the model as it is converted; null where they were solved for it
         */
        private record Evidence(
                @Nullable Statistics statistics,
                Map<String, SecondMoment> moments,
                @Nullable Path file) {}

        /** @param taken statistics, the user's or new ones; null for a recipe without */
        private GraphResult convert(@Nullable Dataset samples, @Nullable Path taken) throws IOException {
            Statistics statistics = request.needsStatistics() && taken != null ? StatisticsFile.read(taken) : null;
            if (statistics != null) {
                CalibratedInputs.requireOf(statistics, source.digest(), request.model(), Objects.requireNonNull(taken));
            }
            watch.step("calibrate");
            Map<String, SecondMoment> moments = Map.of();
            if (rounding.rounding() == Rounding.GPTQ) {
                moments = moments(Objects.requireNonNull(taken));
                watch.step("second moments");
            }
            return convert(samples, new Evidence(statistics, moments, taken));
        }

        private GraphResult convert(@Nullable Dataset samples, Evidence evidence) throws IOException {
            Statistics statistics = evidence.statistics();
            ConversionOptions options = ConversionOptions.defaults()
                    .withTarget(request.target().runtime())
                    .withCalibrator(request.calibratorUsed())
                    .withSaturation(request.saturation())
                    .withThreads(steps.job().threads())
                    .withMoments(evidence.moments());
            Conversion converted = steps.convert(statistics, options);
            if (!request.left().isEmpty()) {
                converted = converted.withMetadata(
                        Map.of(LEFT, String.join(",", request.left().keySet())));
            }
            watch.step("convert");
            Conversion conversion = samples == null ? converted : steps.measure(converted, samples);
            watch.step("compare layers");
            conversion.save(request.output());
            watch.step("write");
            long convertedBytes = Files.size(request.output());
            Schemes.Scheme predicted = request.report().isPresent() ? predicted(evidence.file()) : null;
            if (request.report().isPresent()) {
                HtmlReport.write(
                        beside(report(conversion, statistics, samples != null, convertedBytes), conversion, predicted),
                        request.report().get());
            }
            long calibrated = statistics == null ? 0 : statistics.samplesDone();
            return result(
                    conversion.plan(),
                    conversion.layers(),
                    conversion.comparison(),
                    predicted,
                    calibrated,
                    convertedBytes);
        }

        /** The report with predictions beside what was measured. */
        private static ReportData beside(ReportData report, Conversion conversion, Schemes.@Nullable Scheme predicted) {
            if (predicted == null) {
                return report;
            }
            Map<String, Schemes.Layer> byWeight = new LinkedHashMap<>();
            predicted.layers().forEach(l -> byWeight.put(l.weight(), l));
            Map<String, Schemes.Layer> byNode = new LinkedHashMap<>();
            conversion.plan().converted(LayerKind.LINEAR).forEach(d -> {
                Schemes.Layer layer = byWeight.get(d.weight());
                if (layer != null) {
                    byNode.put(d.node(), layer);
                }
            });
            return report.withLayers(report.layers().stream()
                    .map(l -> {
                        Schemes.Layer p = byNode.get(l.name());
                        return p == null
                                ? l
                                : l.withPrediction(
                                        p.predictedDb(), p.measuredDb() == null ? Double.NaN : p.measuredDb());
                    })
                    .toList());
        }

        private ReportData report(
                Conversion conversion, @Nullable Statistics statistics, boolean ran, long convertedBytes)
                throws IOException {
            List<RunFacts.Digest> digests = new ArrayList<>();
            digests.add(new RunFacts.Digest("the model, " + request.model(), source.digest()));
            if (statistics != null) {
                statistics.data().forEach(d -> digests.add(new RunFacts.Digest("the data, " + d.name(), d.digest())));
            }
            digests.add(new RunFacts.Digest("what was written, " + request.output(), Sha256.of(request.output())));
            return ConversionReport.of(
                    conversion,
                    new ConversionReport.Files(
                            String.valueOf(request.model().getFileName()),
                            steps.converter().canonical(),
                            bytes,
                            convertedBytes),
                    rounding.name() + " (" + rounding.reason() + ")",
                    request.calibratorUsed().text(),
                    statistics,
                    new Provenance(steps.job())
                            .facts(ran ? Provenance.Ran.ONNX_RUNTIME : Provenance.Ran.OCTET, digests, watch.timings()));
        }

        private Map<String, SecondMoment> moments(Path file) throws IOException {
            Statistics taken = StatisticsFile.read(file);
            Map<String, SecondMoment> moments = new MomentsFile(file).read(taken, steps.modules());
            if (!source.digest().equals(taken.modelDigest())) {
                throw new InvalidDataException(
                        "the second moments are of another model than '" + request.model() + "'",
                        new MomentsFile(file).path().toString(),
                        "calibrate this model, or give --rounding nearest");
            }
            return moments;
        }

        private GraphResult result(
                Plan plan,
                List<LayerResult> layers,
                List<LayerComparison> comparison,
                Schemes.@Nullable Scheme predicted,
                long samples,
                long convertedBytes) {
            Map<String, Double> sqnrDb = new LinkedHashMap<>();
            comparison.forEach(c -> sqnrDb.put(c.candidate(), c.sqnrDb()));
            return new GraphResult(
                    request.model().toString(),
                    request.output().toString(),
                    request.report().map(Path::toString).orElse(null),
                    plan.recipe().name(),
                    request.target().label(),
                    plan.needsStatistics() ? request.calibratorUsed().text() : null,
                    rounding.name(),
                    rounding.reason(),
                    samples,
                    LayerCount.of(plan),
                    LayerCount.kept(plan),
                    notes(plan),
                    bytes,
                    convertedBytes,
                    layers.stream().mapToDouble(LayerResult::weightSqnrDb).min().orElse(Double.NaN),
                    IntegerProducts.of(plan, request.target().runtime(), layers).orElse(null),
                    sqnrDb,
                    predicted,
                    watch.seconds(),
                    steps.job().dryRun());
        }
    }
}
