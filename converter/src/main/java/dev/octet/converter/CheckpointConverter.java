package dev.octet.converter;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.checkpoint.AttentionScales;
import dev.octet.converter.checkpoint.AuxiliaryFiles;
import dev.octet.converter.checkpoint.CheckpointPlan;
import dev.octet.converter.checkpoint.CheckpointPlanner;
import dev.octet.converter.checkpoint.CheckpointResult;
import dev.octet.converter.checkpoint.CheckpointRun;
import dev.octet.converter.checkpoint.ConsumersGraph;
import dev.octet.converter.checkpoint.ConversionRequest;
import dev.octet.converter.checkpoint.Exactness;
import dev.octet.converter.checkpoint.GraphWeights;
import dev.octet.converter.checkpoint.HeadCounts;
import dev.octet.converter.checkpoint.InputScales;
import dev.octet.converter.checkpoint.KeptScales;
import dev.octet.converter.checkpoint.MergedWeights;
import dev.octet.converter.checkpoint.NonFiniteScan;
import dev.octet.converter.checkpoint.Selection;
import dev.octet.converter.checkpoint.ShardPlan;
import dev.octet.converter.checkpoint.StreamOptions;
import dev.octet.converter.checkpoint.TensorStep;
import dev.octet.converter.checkpoint.WeightReader;
import dev.octet.converter.checkpoint.WeightRounding;
import dev.octet.converter.checkpoint.WrittenShard;
import dev.octet.converter.trained.CheckpointGraph;
import dev.octet.formats.OctetVersion;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.calibrate.Calibrator;
import dev.octet.quant.layout.AttentionScheme;
import dev.octet.quant.layout.Headers;
import dev.octet.quant.layout.InputForms;
import dev.octet.quant.layout.Layouts;
import dev.octet.quant.layout.StoredCheckpoint;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.statistics.Statistics;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Converts checkpoints of tensors, of any size, without a graph: quantises, dequantises, changes layouts. The tensors are streamed, so
 * memory does not grow with the model.
 *
 * <pre>{@code
 * try (CheckpointConverter converter = CheckpointConverter.open(path)) {
 *     Layout layout = Layouts.named("compressed-tensors").orElseThrow();
 *     ConversionRequest goal = new ConversionRequest.Quantize(Recipes.FP8_DYNAMIC, layout, LayoutOptions.defaults());
 *     converter.run(converter.plan(goal, Request.all(), StreamOptions.defaults()), out, StreamOptions.defaults());
 * }
 * }</pre>
 */
public final class CheckpointConverter implements AutoCloseable {
    private static final String QUANT_CONFIG = "hf_quant_config.json";

    private final Checkpoint checkpoint;
    private final StoredCheckpoint stored;
    private @Nullable Checkpoint keptScales;

    /**
     * The user's choices in addition to the goal.
     *
     * @param selection which weights
     * @param inputScales static input scales (multipliers) by module; empty for dynamic activations
     * @param attentionScales scales of attention, with which engines keep the KV cache in FP8; none to leave it as the checkpoint has it
     * @param allowNonFinite weights with a NaN or an infinity stay as they are instead of stopping the run; costs one more pass over the
     *     weights
     * @param keepScales reuse the scales that {@link ConversionRequest.Dequantize} kept in this checkpoint's folder
     * @param exactOnly refuse a conversion that changes a value
     * @param recipes of weights that have another one than the goal's, by their own name; weights that engines fuse must have the same
     * @param merged weights whose floats change on the way
     * @param changes distinguishes these changes from others of the same weights; empty where the caller does not resume
     * @param rounding how weights are rounded
     */
    public record Request(
            Selection selection,
            Map<String, Float> inputScales,
            AttentionScales attentionScales,
            boolean allowNonFinite,
            boolean keepScales,
            boolean exactOnly,
            Map<String, Recipe> recipes,
            MergedWeights merged,
            String changes,
            WeightRounding rounding) {
        public Request {
            recipes = Map.copyOf(recipes);
        }

        /** One recipe for all weights. */
        public Request(
                Selection selection,
                Map<String, Float> inputScales,
                AttentionScales attentionScales,
                boolean allowNonFinite,
                boolean keepScales,
                boolean exactOnly) {
            this(
                    selection,
                    inputScales,
                    attentionScales,
                    allowNonFinite,
                    keepScales,
                    exactOnly,
                    Map.of(),
                    MergedWeights.NONE,
                    "",
                    WeightRounding.NEAREST);
        }

        /** The same with other recipes for some weights. */
        public Request withRecipes(Map<String, Recipe> newRecipes) {
            return new Request(
                    selection,
                    inputScales,
                    attentionScales,
                    allowNonFinite,
                    keepScales,
                    exactOnly,
                    newRecipes,
                    merged,
                    changes,
                    rounding);
        }

        /** The same with the scales that lie in the checkpoint's folder. */
        public Request withKeptScales() {
            return new Request(
                    selection,
                    inputScales,
                    attentionScales,
                    allowNonFinite,
                    true,
                    exactOnly,
                    recipes,
                    merged,
                    changes,
                    rounding);
        }

        /** The same with what adapters change. */
        public Request withMerged(MergedWeights weights) {
            return withMerged(weights, "");
        }

        /** The same with weights that change on the way, by what distinguishes these changes from others. */
        public Request withMerged(MergedWeights weights, String newChanges) {
            return new Request(
                    selection,
                    inputScales,
                    attentionScales,
                    allowNonFinite,
                    keepScales,
                    exactOnly,
                    recipes,
                    weights,
                    newChanges,
                    rounding);
        }

        /** The same, rounded so. */
        public Request withRounding(WeightRounding newRounding) {
            return new Request(
                    selection,
                    inputScales,
                    attentionScales,
                    allowNonFinite,
                    keepScales,
                    exactOnly,
                    recipes,
                    merged,
                    changes,
                    newRounding);
        }

        /** All Linears, dynamic activations. */
        public static Request all() {
            return of(Selection.ALL_LINEARS, Map.of());
        }

        /** These weights, with these static input scales (none for dynamic activations). */
        public static Request of(Selection selection, Map<String, Float> inputScales) {
            return new Request(selection, inputScales, AttentionScales.NONE, false, false, false);
        }
    }

    private CheckpointConverter(Checkpoint checkpoint, StoredCheckpoint stored) {
        this.checkpoint = checkpoint;
        this.stored = stored;
    }

    /**
     * Opens a safetensors file, an index or a folder; reads headers and configuration only.
     *
     * @throws dev.octet.formats.error.MalformedModelException when a file breaks a rule of its format
     * @throws IOException when it cannot be read
     */
    public static CheckpointConverter open(Path path) throws IOException {
        Checkpoint checkpoint = Checkpoint.open(path);
        Optional<ObjectNode> quantConfig = ModelConfig.read(checkpoint.folder(), QUANT_CONFIG);
        return new CheckpointConverter(checkpoint, recognise(checkpoint, quantConfig.orElse(null)));
    }

    /** Finds the quantised weights of a checkpoint by its configuration, or by the names and shapes of its tensors. */
    static StoredCheckpoint recognise(Checkpoint checkpoint, @Nullable ObjectNode quantConfig) throws IOException {
        return Layouts.recognise(Headers.of(checkpoint, quantConfig));
    }

    /** The checkpoint as it lies on disk. */
    public Checkpoint checkpoint() {
        return checkpoint;
    }

    /** The type of its plain weights by its configuration, otherwise that of its first plain matrix of floats; BF16 without one. */
    public DType floatType() {
        return CheckpointPlanner.modelType(checkpoint)
                .or(() -> stored.plain().values().stream()
                        .filter(t -> t.shape().rank() >= 2)
                        .map(TensorSpec::dtype)
                        .filter(t -> t == DType.F32 || t == DType.F16 || t == DType.BF16)
                        .findFirst())
                .orElse(DType.BF16);
    }

    /** Its quantised weights and their layout. */
    public StoredCheckpoint stored() {
        return stored;
    }

    /**
     * Static input scales of all matrices that the statistics of this model cover.
     *
     * @throws dev.octet.formats.error.InvalidDataException when the statistics cover none of them, or count NaN or infinite elements for
     *     one
     */
    public InputScales inputScales(Statistics statistics, Calibrator calibrator, Recipe recipe) {
        return InputScales.of(statistics, calibrator, recipe, matrices());
    }

    /**
     * Static input scales from what Transformer Engine kept of FP8 training in the checkpoint.
     *
     * @throws dev.octet.formats.error.OctetException when it keeps none for any matrix, or a state is damaged
     * @throws IOException when a file cannot be read
     */
    public InputScales trainedInputScales(Recipe recipe) throws IOException {
        return InputScales.ofTraining(checkpoint.extraStates(), recipe, matrices());
    }

    /**
     * Scales for all attention layers, amax / 448.
     *
     * @param scheme not {@link AttentionScheme#NONE}
     * @throws dev.octet.formats.error.InvalidDataException when there is no attention layer, or the statistics lack an input of one, or its
     *     heads
     */
    public AttentionScales attentionScales(Statistics statistics, AttentionScheme scheme) {
        return AttentionScales.of(
                statistics,
                AttentionScales.attentions(matrices()),
                scheme,
                HeadCounts.of(checkpoint.config().orElse(null)));
    }

    /** The attention layers whose keys or values the statistics cover. */
    public List<String> cachesKnownTo(Statistics statistics) {
        return AttentionScales.known(statistics, AttentionScales.attentions(matrices()));
    }

    private List<String> matrices() {
        return Stream.concat(
                        stored.plain().entrySet().stream()
                                .filter(e -> e.getValue().shape().rank() >= 2)
                                .map(Map.Entry::getKey),
                        stored.weights().keySet().stream())
                .toList();
    }

    /**
     * Decides what each tensor becomes. Reads the scales and, with {@code allowNonFinite}, all weights.
     *
     * @throws InvalidOptionException when a pattern matches nothing, or the layout cannot express the recipe
     * @throws UnsupportedModelException when there is nothing to convert, or {@code exactOnly} forbids it; names the weights
     * @throws IOException when scales or weights cannot be read
     */
    public CheckpointPlan plan(ConversionRequest goal, Request request, StreamOptions options) throws IOException {
        if (request.keepScales() && goal instanceof ConversionRequest.Quantize && keptScales == null) {
            keptScales = KeptScales.open(checkpoint);
        }
        Map<String, String> nonFinite =
                request.allowNonFinite() ? NonFiniteScan.of(checkpoint, stored, options) : Map.of();
        CheckpointPlan plan = CheckpointPlanner.plan(
                        checkpoint,
                        stored,
                        goal,
                        new CheckpointPlanner.Inputs(
                                request.selection(),
                                request.inputScales(),
                                request.attentionScales(),
                                nonFinite,
                                keptScales,
                                request.recipes(),
                                request.merged(),
                                request.rounding()))
                .withFingerprint(describe(goal, request));
        if (request.exactOnly()) {
            refuseInexact(plan);
        }
        return plan;
    }

    private void refuseInexact(CheckpointPlan plan) {
        List<TensorStep> inexact = plan.shards().stream()
                .flatMap(s -> s.steps().stream())
                .filter(s -> s.exactness() != Exactness.EXACT)
                .toList();
        if (!inexact.isEmpty()) {
            throw new UnsupportedModelException(
                    inexact.size() + " weights would change their values: "
                            + String.join(
                                    ", ",
                                    inexact.stream()
                                            .limit(5)
                                            .map(s -> s.name() + " ("
                                                    + s.exactness().label() + ")")
                                            .toList())
                            + (inexact.size() > 5 ? ", ..." : ""),
                    checkpoint.path().toString(),
                    "choose a target or type that holds them exactly, or allow rounding by leaving out --exact-only");
        }
    }

    /**
     * Carries out a plan of this checkpoint. The same call resumes a killed run.
     *
     * @param output the folder to make, or a file for a checkpoint of one file
     * @throws InvalidOptionException when something is in the way of the output
     * @throws dev.octet.formats.error.InvalidDataException when a weight holds a NaN or an infinity
     * @throws IOException when reading or writing fails
     */
    public CheckpointResult run(CheckpointPlan plan, Path output, StreamOptions options) throws IOException {
        return CheckpointRun.run(checkpoint, stored, plan, output, keptScales, options);
    }

    /**
     * Writes one tensor file of a plan of this checkpoint, where several processes share its files.
     *
     * @param shard one of the plan's
     * @param file where, in a folder that is there
     * @throws dev.octet.formats.error.InvalidDataException when a weight holds a NaN or an infinity
     * @throws IOException when reading or writing fails; nothing is left then
     */
    public WrittenShard writeShard(CheckpointPlan plan, ShardPlan shard, Path file, StreamOptions options)
            throws IOException {
        return CheckpointRun.writeShard(checkpoint, stored, plan, shard, file, keptScales, options);
    }

    /**
     * Writes what the output holds besides the tensor files: files that are copied, the index, the configuration.
     *
     * @param folder is there
     * @throws IOException when reading or writing fails
     */
    public AuxiliaryFiles writeRest(CheckpointPlan plan, Path folder) throws IOException {
        return CheckpointRun.writeRest(checkpoint, stored, plan, folder);
    }

    /**
     * Refuses a folder to write to that would change this checkpoint while it is read.
     *
     * @throws InvalidOptionException when it is the checkpoint's, lies in it or contains it
     */
    public void requireApart(Path folder) throws IOException {
        CheckpointRun.requireApart(checkpoint, folder);
    }

    /**
     * By what an unfinished run of a plan is known: two runs write the same files if their identities are equal.
     *
     * @throws IOException when a file of the checkpoint has vanished
     */
    public Map<String, String> identity(CheckpointPlan plan) throws IOException {
        return CheckpointRun.identity(checkpoint, stored, plan);
    }

    /**
     * Puts the weights into the constants of the same names in a graph.
     *
     * @param arena owns the new constants
     * @throws UnsupportedModelException when checkpoint and graph share no name, a shape differs, or the orientation of a square matrix is
     *     unknown
     * @throws IOException when the checkpoint cannot be read
     */
    public GraphWeights into(GraphModel graph, Arena arena) throws IOException {
        return GraphWeights.into(
                graph,
                WeightReader.of(checkpoint, stored),
                stored,
                checkpoint.config().orElse(null),
                arena);
    }

    /**
     * The canonical graph of this checkpoint, computing what the checkpoint's readers compute; it proves that the file is right.
     *
     * @param arena owns the new constants
     * @throws IOException when the checkpoint cannot be read
     */
    public GraphModel computedIn(GraphModel canonical, CheckpointGraph.Reading reading, Arena arena)
            throws IOException {
        return CheckpointGraph.of(canonical, stored, WeightReader.of(checkpoint, stored), reading, arena);
    }

    /**
     * The graph of this checkpoint, with activations rounded where and as its consumers round them.
     *
     * @param canonical holds the checkpoint's weights, dequantised, under their names
     * @param nodeOf the name of the Attention node of an attention layer
     * @param arena owns new constants
     * @throws IOException when a scale cannot be read
     */
    public ConsumersGraph computedByConsumers(GraphModel canonical, UnaryOperator<String> nodeOf, Arena arena)
            throws IOException {
        ObjectNode quantConfig =
                ModelConfig.read(checkpoint.folder(), QUANT_CONFIG).orElse(null);
        InputForms forms = InputForms.of(stored, checkpoint.config().orElse(null), quantConfig);
        return ConsumersGraph.of(canonical, checkpoint, stored, forms, nodeOf, arena);
    }

    /** The choices that distinguish this run from others of the same checkpoint. */
    private static Map<String, String> describe(ConversionRequest goal, Request request) {
        Map<String, String> what = new LinkedHashMap<>();
        what.put("octet", OctetVersion.current());
        switch (goal) {
            case ConversionRequest.Quantize(var recipe, var layout, var options) -> {
                what.put("goal", "quantize");
                what.put("recipe", recipe.name());
                what.put("target", layout.name());
                what.put("layout options", options.toString());
            }
            case ConversionRequest.Dequantize(var type, boolean keep) -> {
                what.put("goal", "dequantize");
                what.put("type", type.name());
                what.put("kept scales", Boolean.toString(keep));
            }
            case ConversionRequest.Merge() -> what.put("goal", "merge");
            case ConversionRequest.Copy() -> what.put("goal", "copy");
            case ConversionRequest.Convert(var layout, var options, var recipe) -> {
                what.put("goal", "convert");
                what.put("target", layout.name());
                what.put("layout options", options.toString());
                what.put("recipe", recipe.map(r -> r.name()).orElse(""));
            }
        }
        if (!request.changes().isEmpty()) {
            what.put("changes", request.changes());
        }
        what.put("keep", request.selection().keep().toString());
        what.put("only", request.selection().only().toString());
        what.put("include", request.selection().include().toString());
        what.put("input scales", new TreeMap<>(request.inputScales()).toString());
        what.put(
                "attention scales",
                request.attentionScales().scheme() + " "
                        + request.attentionScales().byAttention());
        what.put("allow non-finite", Boolean.toString(request.allowNonFinite()));
        what.put("scales", request.keepScales() ? "kept" : "computed");
        what.put("rounding", request.rounding().fingerprint());
        if (!request.recipes().isEmpty()) {
            Map<String, String> recipes = new TreeMap<>();
            request.recipes().forEach((weight, recipe) -> recipes.put(weight, recipe.name()));
            what.put("recipes", recipes.toString());
        }
        return what;
    }

    /** Closes the files. */
    @Override
    public void close() throws IOException {
        checkpoint.close();
        if (keptScales != null) {
            keptScales.close();
        }
    }
}
