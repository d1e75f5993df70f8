package dev.octet.converter;

import dev.octet.converter.data.Dataset;
import dev.octet.converter.evaluate.Evaluation;
import dev.octet.converter.evaluate.EvaluationOptions;
import dev.octet.converter.evaluate.LayerComparison;
import dev.octet.converter.expand.UnpaddedExperts;
import dev.octet.converter.lower.Lowering;
import dev.octet.converter.lower.OnnxTarget;
import dev.octet.converter.lower.StandardOps;
import dev.octet.converter.pass.ImportPasses;
import dev.octet.converter.pass.PassLog;
import dev.octet.converter.pass.UniqueNodeNames;
import dev.octet.converter.plan.ActivationScales;
import dev.octet.converter.plan.CompensatedRounding;
import dev.octet.converter.plan.Decision;
import dev.octet.converter.plan.GivenRounding;
import dev.octet.converter.plan.LayerKind;
import dev.octet.converter.plan.LinearScales;
import dev.octet.converter.plan.Plan;
import dev.octet.converter.plan.PlanRewrite;
import dev.octet.converter.plan.Planner;
import dev.octet.converter.plan.RoundToNearest;
import dev.octet.converter.plan.WeightQuantizer;
import dev.octet.converter.rule.ExpertValues;
import dev.octet.converter.rule.FusePatterns;
import dev.octet.converter.rule.RecoverNames;
import dev.octet.converter.runtime.CalibrationOptions;
import dev.octet.converter.runtime.CalibrationRun;
import dev.octet.converter.runtime.ModuleTaps;
import dev.octet.converter.runtime.Tap;
import dev.octet.converter.runtime.ValueTaps;
import dev.octet.converter.trained.TrainedWeights;
import dev.octet.converter.transform.GraphSmoothing;
import dev.octet.formats.OctetVersion;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.file.TemporaryFolder;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.model.Model;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.Quantizer;
import dev.octet.quant.gptq.Gptq;
import dev.octet.quant.gptq.SecondMoment;
import dev.octet.quant.gptq.SecondMoments;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.statistics.ChannelStatistics;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.TensorStatistics;
import dev.octet.quant.transform.Transform;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * Converts one model: import to canonical form, plan, rewrite to FP8, lower to a target.
 *
 * <pre>{@code
 * try (ModelFile file = ModelFile.open(path); Converter converter = Converter.of(file.model())) {
 *     Plan plan = converter.plan(Recipes.FP8_PER_CHANNEL, List.of());
 *     Statistics statistics = converter.calibrate(plan, data, Sha256.of(path), CalibrationOptions.defaults());
 *     converter.convert(plan, statistics, ConversionOptions.defaults()).save(out);
 * }
 * }</pre>
 *
 * <p>Owns the memory of its conversions, which live until {@link #close()}. They read from the model file, which must stay open until
 * then. Not thread-safe.
 */
public final class Converter implements AutoCloseable {
    /**
     * Opsets that {@link #standard} writes: 21, which most tools read and which needs several operators for attention; 23, which has the
     * operator Attention.
     */
    public static final List<Integer> OPSETS = List.of(21, 23);

    private static final int MEASURED_SAMPLES = 32;

    private final GraphModel source;
    private final GraphModel canonical;
    private final PassLog log;
    private final Arena arena;

    private Converter(GraphModel source, GraphModel canonical, PassLog log, Arena arena) {
        this.source = source;
        this.canonical = canonical;
        this.log = log;
        this.arena = arena;
    }

    /**
     * Imports a model: upgrades its opset, folds constants, fuses patterns to canonical operators, recovers weight names.
     *
     * @throws UnsupportedModelException when the model has no graph (tensors only), or has an opset that Octet cannot upgrade
     * @throws dev.octet.formats.error.MalformedModelException when the graph contradicts itself
     */
    public static Converter of(Model model) {
        return of(model, model.tensors().size() + " tensors");
    }

    /** The same for a model of a file; failures name the file. */
    static Converter of(Model model, String where) {
        GraphModel source = model.graph()
                .orElseThrow(() -> new UnsupportedModelException(
                        "the model has tensors but no graph, so Octet does not know what it computes",
                        where,
                        "put the model's Hugging Face config.json next to it, or give an .onnx export of the model"));
        PassLog log = new PassLog();
        GraphModel m = ImportPasses.apply(source, log);
        m = new FusePatterns().apply(m, log);
        m = new RecoverNames().apply(m, log);
        m = new UniqueNodeNames().apply(m, log);
        return new Converter(source, m, log, Arena.ofShared());
    }

    /**
     * This model with trained weights, each rounded once to its type in the model.
     *
     * @param weights F32, BF16 or F16 by the name of the canonical model's constant; other constants stay as they are
     * @return a new converter, to be closed separately; it reads from this converter's model, which must stay open until then
     * @throws InvalidDataException when the model lacks such a constant, its shape differs, or a value is NaN or infinite in the model's
     *     type
     */
    public Converter withWeights(Map<String, Tensor> weights) {
        Arena own = Arena.ofShared();
        try {
            return new Converter(source, TrainedWeights.put(canonical, weights, own), log, own);
        } catch (RuntimeException e) {
            own.close();
            throw e;
        }
    }

    /**
     * A smoothed model, from {@link #smoothed}.
     *
     * @param converter to be closed by itself
     * @param inputs what became of the smoothed inputs, by the values that Linears read before
     */
    public record Smoothed(Converter converter, Map<String, GraphSmoothing.Changed> inputs) {
        public Smoothed {
            inputs = Map.copyOf(inputs);
        }
    }

    /**
     * This model with the inputs of some Linears smoothed: the same outputs, bit for bit where factors stay in range.
     *
     * @param plan whose {@linkplain Plan#quantizedInputs quantised inputs} are smoothed; the new model has a plan of its own
     * @param statistics with channels of these inputs, as {@link #calibrate} takes them
     * @return a new converter, to be closed separately; it reads from this converter's model, which must stay open until then
     * @throws InvalidDataException when the statistics have no channels of an input
     * @throws UnsupportedModelException when nothing can be smoothed
     */
    public Smoothed smoothed(Plan plan, Statistics statistics, Transform.SmoothQuant how) {
        Map<String, float[]> amax = new LinkedHashMap<>();
        for (String value : plan.quantizedInputs().keySet()) {
            TensorStatistics seen = statistics.tensors().get(value);
            ChannelStatistics channels = seen == null ? null : seen.channels();
            if (channels == null) {
                throw new InvalidDataException(
                        "the statistics have no channels of value '" + value + "'",
                        "statistics of " + statistics.tensors().size() + " values",
                        "calibrate this model again");
            }
            amax.put(value, channels.amax());
        }
        Arena own = Arena.ofShared();
        try {
            GraphSmoothing.Result smoothed = GraphSmoothing.apply(canonical, amax, how, own);
            PassLog more = new PassLog();
            log.notes().forEach(n -> more.note(n.pass(), n.node(), n.text()));
            smoothed.folds().forEach(f -> more.note(how.text(), f.into(), f.how() + ": " + String.join(", ", f.of())));
            GraphModel named =
                    smoothed.model().withMetadata(withTransform(smoothed.model().metadata(), how));
            return new Smoothed(new Converter(source, named, more, own), smoothed.inputs());
        } catch (RuntimeException e) {
            own.close();
            throw e;
        }
    }

    private static Map<String, String> withTransform(Map<String, String> metadata, Transform how) {
        Map<String, String> more = new LinkedHashMap<>(metadata);
        more.merge("octet.transform", how.text(), (a, b) -> a + "," + b);
        return more;
    }

    /** The model before import. */
    public GraphModel source() {
        return source;
    }

    /** The model in canonical form: opset 21 or later, Linear and normalisations in Octet's domain. */
    public GraphModel canonical() {
        return canonical;
    }

    /** What the import changed, and what it left unchanged and why. */
    public List<PassLog.Note> notes() {
        return log.notes();
    }

    /** The canonical model in standard operators, with the same value names; calibration runs it. */
    public GraphModel runnable() {
        return new StandardOps().apply(canonical, new PassLog());
    }

    /** The same, with padding kept from experts. */
    private GraphModel measurable() {
        return new StandardOps().apply(UnpaddedExperts.apply(canonical), new PassLog());
    }

    /**
     * The canonical model for other tools: ONNX's own operators at one opset, constants unchanged, symbolic sizes still symbolic.
     * {@code octet convert --target onnx} writes it; {@link dev.octet.formats.ModelFile#save} puts constants of more than 2 GiB into a data
     * file next to the model.
     *
     * @param opset one of {@link #OPSETS}
     * @throws dev.octet.formats.error.InvalidOptionException when {@code opset} is not in the list
     * @throws UnsupportedModelException when a node cannot be written at that opset
     */
    public GraphModel standard(int opset) {
        if (!OPSETS.contains(opset)) {
            throw new InvalidOptionException(
                    "opset " + opset + " is not written",
                    "option opset",
                    "choose " + OPSETS.stream().map(String::valueOf).collect(Collectors.joining(" or ")));
        }
        return Lowering.standard(canonical, opset, log);
    }

    /**
     * Decides for each layer whether and how it is quantised.
     *
     * @param keep layers whose node id or weight name matches one of these patterns stay as they are
     * @throws dev.octet.formats.error.InvalidOptionException when a pattern matches no layer
     */
    public Plan plan(Recipe recipe, List<Pattern> keep) {
        return plan(recipe, keep, Map.of());
    }

    /**
     * The same with other layers than Linears.
     *
     * @param others kinds of layers that are quantised, too, each with one of its {@linkplain LayerKind#forms forms}
     */
    public Plan plan(Recipe recipe, List<Pattern> keep, Map<LayerKind, QuantType> others) {
        return Planner.plan(canonical.graph(), recipe, keep, others);
    }

    /**
     * Takes the statistics a plan needs by running the model in ONNX Runtime.
     *
     * @param modelDigest SHA-256 of the model's file, stored with the statistics
     * @return statistics of {@link Plan#taps()}
     * @throws UnsupportedModelException when there is nothing to calibrate
     * @throws InvalidDataException when the data do not fit the model, or the calibration checkpoint belongs to another run
     * @throws IOException when data cannot be read or the calibration checkpoint cannot be written
     */
    public Statistics calibrate(Plan plan, Dataset data, String modelDigest, CalibrationOptions options)
            throws IOException {
        if (plan.needsStatistics() && plan.nothing().isPresent()) {
            plan.requireTaps();
        }
        return CalibrationRun.runTaps(measurable(), modelDigest, taps(), data, options);
    }

    /**
     * The values that {@link #calibrate} measures: inputs of all Linears, and whatever else statistics can be taken of. They do not depend on
     * the plan, for the last bits of a value depend on which values are measured.
     */
    public List<Tap> taps() {
        return ValueTaps.of(canonical, plan(Recipes.GRAPH_FP8, List.of()).linearInputs());
    }

    /**
     * Takes the statistics of a checkpoint's modules by running the model in ONNX Runtime: each Linear's input, and the keys and values
     * that
     * go into a cache. For models that {@link ModelSource} built from a checkpoint; their constants have the names of its tensors.
     *
     * @param modelDigest identifies the checkpoint, as {@link ModelSource#digest()}
     * @return statistics named by {@link ModuleTaps}
     * @throws InvalidDataException when the data do not fit, or the calibration checkpoint to resume from belongs to another run
     * @throws IOException when data cannot be read or the calibration checkpoint cannot be written
     */
    public Statistics calibrateModules(Dataset data, String modelDigest, CalibrationOptions options)
            throws IOException {
        // attention in single operators: ONNX Runtime then computes masks of any shape
        GraphModel measured = Lowering.standard(UnpaddedExperts.apply(canonical), OPSETS.getFirst(), log);
        return CalibrationRun.runTaps(measured, modelDigest, ModuleTaps.of(canonical), data, options);
    }

    /**
     * Takes the second moments of the plan's Linear inputs, for {@link ConversionOptions#withMoments}.
     *
     * @return by value name, without values whose channel count is unknown or very large
     * @throws IOException when data cannot be read
     */
    public Map<String, SecondMoment> moments(Plan plan, Dataset data, CalibrationOptions options) throws IOException {
        try (TemporaryFolder folder = TemporaryFolder.create("moments")) {
            Path file = folder.path().resolve("moments");
            CalibrationOptions how = options.withCheckpoint(null, 1).withSecondMoments(file);
            Map<String, Integer> wanted = momentChannels(plan);
            if (wanted.isEmpty()) {
                return Map.of();
            }
            CalibrationRun.runTaps(measurable(), "model", taps(), data, how);
            Map<String, SecondMoment> moments =
                    new LinkedHashMap<>(SecondMoments.read(file).byName());
            moments.keySet().retainAll(wanted.keySet());
            return moments;
        }
    }

    /** Bytes of the numbers of {@link #moments}, in memory and in a file: {@code 4 K (K + 1)} for an input of K channels. */
    public long momentBytes(Plan plan) {
        return momentChannels(plan).values().stream()
                .mapToLong(k -> Math.multiplyExact(4L * k, k + 1L))
                .sum();
    }

    private Map<String, Integer> momentChannels(Plan plan) {
        Map<String, Integer> channels = new LinkedHashMap<>();
        for (Decision.Converted d : plan.converted(LayerKind.LINEAR)) {
            long in = inputChannels(d);
            if (in <= SecondMoment.MAX_SIZE) {
                channels.put(d.input(), (int) in);
            }
        }
        return channels;
    }

    private long inputChannels(Decision.Converted linear) {
        Node node = canonical.graph().nodes().stream()
                .filter(n -> n.id().equals(linear.node()))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException("not a plan of this model: " + linear.node()));
        Initializer weight = canonical.graph().initializers().get(linear.weight());
        if (weight == null) {
            throw new IllegalArgumentException("not a plan of this model: " + linear.weight());
        }
        Shape shape = weight.tensor().orElseThrow().shape();
        return shape.dim(node.intAttribute("transB", 0) == 1 ? 1 : 0);
    }

    /**
     * Carries out a plan.
     *
     * @param statistics of {@link Plan#taps()}, or of a checkpoint's modules, from {@link #calibrateModules}; null only for a recipe that
     *     needs none
     * @throws InvalidDataException when statistics are missing, incomplete or of another plan
     */
    public Conversion convert(Plan plan, @Nullable Statistics statistics, ConversionOptions options) {
        return convertSuited(plan.withRecipes(options.target()::suited), statistics, options);
    }

    private Conversion convertSuited(Plan plan, @Nullable Statistics statistics, ConversionOptions options) {
        PassLog lowering = new PassLog();
        Set<String> bounded =
                options.saturation() == ConversionOptions.Saturation.EXCLUDED ? plan.integerProducts() : Set.of();
        RoundToNearest nearest = new RoundToNearest(Quantizer.parallel(options.threads()), arena, bounded);
        WeightQuantizer rounding = options.moments().isEmpty()
                ? nearest
                : new CompensatedRounding(
                        Gptq.parallel(options.threads()), options.moments(), nearest, bounded, lowering);
        return rewrite(
                solve(plan, statistics, options),
                rounding,
                options.target(),
                metadata(plan, statistics, options),
                lowering);
    }

    /**
     * Carries out a plan with the scales of a training run instead of statistics.
     *
     * @param scales by node id of the canonical model's Linears; a Linear without scales, or without an input scale where the recipe
     *     quantises inputs, stays as it is
     * @param options its calibrator and moments are ignored
     * @param metadata metadata entries about the run, in addition to the recipe's
     */
    public Conversion convert(
            Plan plan, Map<String, LinearScales> scales, ConversionOptions options, Map<String, String> metadata) {
        RoundToNearest nearest = new RoundToNearest(Quantizer.parallel(options.threads()), arena);
        Map<String, String> all = metadata(plan, null, options.withMoments(Map.of()));
        all.putAll(metadata);
        return rewrite(
                ActivationScales.given(plan, scales),
                new GivenRounding(scales, nearest),
                options.target(),
                all,
                new PassLog());
    }

    private Conversion rewrite(
            ActivationScales solved,
            WeightQuantizer rounding,
            OnnxTarget target,
            Map<String, String> metadata,
            PassLog lowering) {
        PlanRewrite.Result rewritten = PlanRewrite.apply(canonical, solved.plan(), solved.scales(), rounding, arena);
        GraphModel lowered = Lowering.lower(rewritten.model(), target, arena, lowering);
        List<PassLog.Note> notes = new ArrayList<>(log.notes());
        notes.addAll(lowering.notes());
        return new Conversion(
                lowered.withMetadata(metadata),
                target,
                solved.plan(),
                solved.scales(),
                rewritten.layers(),
                List.of(),
                notes);
    }

    /**
     * Measures a conversion layer by layer: the signal-to-noise ratio of each converted Linear's output against the original model's,
     * both fed the same samples, so the error of all layers up to there. The file stays as it is. Linears of experts are left out: where the
     * routers of the two choose differently, their rows are not of the same tokens.
     *
     * @param data only its first 32 samples are used, which is accurate to a tenth of a decibel
     * @return the conversion with the measurements
     * @throws IOException when data cannot be read
     */
    public Conversion measure(Conversion conversion, Dataset data, EvaluationOptions options) throws IOException {
        Map<String, String> pairs = new LinkedHashMap<>();
        Set<String> inExperts = ExpertValues.of(canonical.graph());
        conversion.layers().stream()
                .filter(l -> !inExperts.contains(l.output()))
                .forEach(l -> pairs.put(l.output(), l.output()));
        Dataset some = data.slice(0, Math.min(MEASURED_SAMPLES, data.count()));
        List<LayerComparison> layers = Evaluation.compareLayers(runnable(), conversion.model(), pairs, some, options);
        return conversion.withComparison(layers);
    }

    private ActivationScales solve(Plan plan, @Nullable Statistics statistics, ConversionOptions options) {
        if (plan.taps().isEmpty()) {
            return new ActivationScales(plan, Map.of());
        }
        if (statistics == null) {
            throw new InvalidDataException(
                    "recipe " + plan.recipe().name() + " needs statistics of the activations",
                    "neither calibration data nor a statistics file was given",
                    "give --calibration FILE or --statistics FILE, which octet calibrate makes; int8-dynamic and"
                            + " fp8-weight-only need none");
        }
        requireComplete(statistics);
        return ActivationScales.solve(plan, ModuleTaps.withValues(canonical, statistics), options.calibrator());
    }

    /**
     * Refuses statistics of some of the samples.
     *
     * @throws InvalidDataException when a calibration was interrupted
     */
    public static void requireComplete(Statistics statistics) {
        if (!statistics.complete()) {
            throw new InvalidDataException(
                    "the statistics are of an interrupted calibration: " + statistics.samplesDone() + " samples",
                    "statistics of " + statistics.tensors().size() + " values",
                    "run the calibration again with the same output; it resumes where it stopped");
        }
    }

    /** Metadata on how the file was made; docs/metadata.md documents the keys. */
    private Map<String, String> metadata(Plan plan, @Nullable Statistics statistics, ConversionOptions options) {
        Map<String, String> m = new LinkedHashMap<>(canonical.metadata());
        m.put("octet.version", OctetVersion.current());
        m.put("octet.recipe", plan.recipe().name());
        m.put("octet.target", options.target().label());
        Map.of(
                        LayerKind.EMBEDDING, "octet.embeddings",
                        LayerKind.CONV, "octet.convolutions",
                        LayerKind.ATTENTION, "octet.attention")
                .forEach((kind, key) -> plan.converted(kind).stream()
                        .findFirst()
                        .ifPresent(d -> m.put(
                                key, plan.recipe(d).weight().type().family().toLowerCase(Locale.ROOT))));
        if (options.saturation() == ConversionOptions.Saturation.EXCLUDED
                && !plan.integerProducts().isEmpty()) {
            m.put("octet.reduce_range", "pairs");
        }
        m.put("octet.rounding", options.moments().isEmpty() ? "nearest" : "gptq");
        plan.converted(LayerKind.LINEAR).stream()
                .filter(d ->
                        plan.others().containsKey(d.node()) && plan.recipe(d).input() == null)
                .forEach(d -> m.merge("octet.weight_only", d.weight(), (a, b) -> a + "," + b));
        if (statistics != null && plan.needsStatistics()) {
            m.put("octet.calibrator", options.calibrator().text());
            m.put("octet.source.sha256", statistics.modelDigest());
            m.put("octet.data.samples", Long.toString(statistics.samplesDone()));
            statistics.data().forEach(d -> m.merge("octet.data.sha256", d.digest(), (a, b) -> a + "," + b));
        }
        return m;
    }

    /** Releases the memory of all conversions. */
    @Override
    public void close() {
        arena.close();
    }
}
