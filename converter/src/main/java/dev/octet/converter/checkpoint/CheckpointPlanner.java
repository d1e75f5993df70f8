package dev.octet.converter.checkpoint;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.ModelConfig;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.model.Shard;
import dev.octet.formats.model.ShardHeader;
import dev.octet.formats.safetensors.SafetensorsHeader;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.LayoutOptions;
import dev.octet.quant.layout.Layouts;
import dev.octet.quant.layout.ScaleTensor;
import dev.octet.quant.layout.StoredCheckpoint;
import dev.octet.quant.layout.StoredWeight;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.Recipe;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * Decides what each tensor of a checkpoint becomes, from headers, configuration and scales, without reading weights.
 *
 * <p>Every tensor file of the target corresponds to the source file of the same name; scales lie in the file of their codes.
 */
public final class CheckpointPlanner {
    private static final String QUANT_CONFIG = "hf_quant_config.json";
    private static final String TIED = "tie_word_embeddings";
    private static final Set<DType> FLOATS = Set.of(DType.F64, DType.F32, DType.BF16, DType.F16);

    private final Checkpoint checkpoint;
    private final StoredCheckpoint stored;
    private final ConversionRequest goal;
    private final Inputs inputs;
    private final ExactnessCheck exactnesses;
    private final DType plainType;
    private final List<String> notes = new ArrayList<>();
    private final TargetConfig targetConfig;
    private Map<String, WeightDecision> decisions = Map.of();
    private final AttentionScaleSteps attention;
    private final SharedScales sharedScales;
    private final Set<String> rewritten = new HashSet<>();
    private final Map<String, TensorStep> rescaled = new HashMap<>();

    /**
     * The inputs of a plan in addition to the checkpoint.
     *
     * @param selection which weights the user wants quantised
     * @param inputScales static input scales (multipliers) by module; empty for dynamic activations
     * @param attentionScales scales of attention; none to leave it as the checkpoint has it
     * @param nonFinite weights that stay as they are because they hold a NaN or an infinity, with what was found
     * @param keptScales scales of an earlier quantisation to reuse; null to compute scales
     * @param recipes of weights that have another one than the goal's, by their own name
     * @param merged what adapters change
     * @param rounding how weights are rounded
     */
    public record Inputs(
            Selection selection,
            Map<String, Float> inputScales,
            AttentionScales attentionScales,
            Map<String, String> nonFinite,
            @Nullable Checkpoint keptScales,
            Map<String, Recipe> recipes,
            MergedWeights merged,
            WeightRounding rounding) {
        /** All Linears, dynamic activations, no known scales. */
        public static Inputs none() {
            return new Inputs(
                    Selection.ALL_LINEARS,
                    Map.of(),
                    AttentionScales.NONE,
                    Map.of(),
                    null,
                    Map.of(),
                    MergedWeights.NONE,
                    WeightRounding.NEAREST);
        }
    }

    private CheckpointPlanner(Checkpoint checkpoint, StoredCheckpoint stored, ConversionRequest goal, Inputs inputs) {
        this.checkpoint = checkpoint;
        this.stored = stored;
        this.goal = withScaleType(goal, modelType(checkpoint).orElse(DType.F32), stored);
        this.inputs = inputs;
        this.exactnesses = new ExactnessCheck(checkpoint);
        this.sharedScales = new SharedScales(checkpoint, stored, WeightReader.of(checkpoint, stored), inputs.merged());
        this.plainType = plainType(goal, checkpoint);
        this.attention = new AttentionScaleSteps(checkpoint, stored, goal.layout(), inputs.attentionScales());
        this.targetConfig = new TargetConfig(
                checkpoint, goal.layout(), plainType, !inputs.recipes().isEmpty());
    }

    /**
     * Plans a run.
     *
     * @throws InvalidOptionException when a pattern matches nothing
     * @throws UnsupportedModelException when nothing can be quantised, or a weight cannot go to the layout
     * @throws MalformedModelException when configuration and tensors contradict each other
     * @throws IOException when scales cannot be read
     */
    public static CheckpointPlan plan(
            Checkpoint checkpoint, StoredCheckpoint stored, ConversionRequest goal, Inputs inputs) throws IOException {
        return new CheckpointPlanner(checkpoint, stored, goal, inputs).plan();
    }

    /** The type of dequantised weights: the goal's, else the configuration's, else BF16. */
    private static DType plainType(ConversionRequest goal, Checkpoint checkpoint) {
        if (goal instanceof ConversionRequest.Dequantize(DType type, boolean _)) {
            return type;
        }
        return modelType(checkpoint).orElse(DType.BF16);
    }

    /** The configuration's type of unquantised weights. */
    public static Optional<DType> modelType(Checkpoint checkpoint) {
        String text = checkpoint
                .config()
                .map(c -> c.path("torch_dtype").asText(c.path("dtype").asText("")))
                .orElse("");
        return switch (text) {
            case "float32" -> Optional.of(DType.F32);
            case "float16" -> Optional.of(DType.F16);
            case "bfloat16" -> Optional.of(DType.BF16);
            default -> Optional.empty();
        };
    }

    /** The widest float type of a checkpoint's scales, so that a change of layout rounds no scale; empty if no scale is a float. */
    private static Optional<DType> typeOfScales(StoredCheckpoint stored) {
        return stored.weights().values().stream()
                .map(StoredWeight::scale)
                .filter(Objects::nonNull)
                .map(ScaleTensor::number)
                .filter(t -> t == DType.F32 || t == DType.BF16 || t == DType.F16)
                .reduce((a, b) -> a == b ? a : DType.F32);
    }

    private static ConversionRequest withScaleType(ConversionRequest goal, DType model, StoredCheckpoint stored) {
        return switch (goal) {
            case ConversionRequest.Quantize(Recipe recipe, Layout layout, LayoutOptions options) ->
                new ConversionRequest.Quantize(recipe, layout, options.of(layout, model));
            case ConversionRequest.Convert(Layout layout, LayoutOptions options, Optional<Recipe> recipe) ->
                new ConversionRequest.Convert(
                        layout, options.of(layout, typeOfScales(stored).orElse(model)), recipe);
            case ConversionRequest.Dequantize _, ConversionRequest.Merge _, ConversionRequest.Copy _ -> goal;
        };
    }

    private CheckpointPlan plan() throws IOException {
        if (!(goal instanceof ConversionRequest.Copy)) {
            requireConsistent();
        }
        notes.addAll(checkpoint.notes());
        notes.addAll(stored.notes());
        decide();
        List<ShardPlan> shards = new ArrayList<>();
        Set<String> names = new HashSet<>();
        for (Shard shard : checkpoint.shards()) {
            List<TensorStep> steps = new ArrayList<>();
            for (ShardHeader.Entry e : shard.header().entries()) {
                addSteps(e.spec(), steps);
            }
            List<TensorSpec> targets =
                    steps.stream().flatMap(s -> s.targets().stream()).toList();
            targets.forEach(t -> requireNew(t, names, shard));
            shards.add(new ShardPlan(
                    shard.name(), List.copyOf(steps), SafetensorsHeader.layout(targets, metadata(shard))));
        }
        requireSomething(shards);
        noteMoments(shards);
        if (goal instanceof ConversionRequest.Merge || goal instanceof ConversionRequest.Copy) {
            return sameConfigPlan(shards);
        }
        Optional<ObjectNode> config = checkpoint.config().map(ObjectNode::deepCopy);
        Map<String, ObjectNode> files = targetConfig.describe(config, attention.written(), notes);
        if (!inputs.merged().added().isEmpty()) {
            config.ifPresent(c -> c.put(TIED, false)); // the head has a weight of its own now
        }
        return new CheckpointPlan(
                goal,
                Map.of(),
                shards,
                List.copyOf(decisions.values()),
                config,
                files,
                List.copyOf(notes),
                inputs.merged(),
                inputs.rounding());
    }

    /** Names the weights that have no moments; with none at all the file is of another model. */
    private void noteMoments(List<ShardPlan> shards) {
        WeightRounding rounding = inputs.rounding();
        if (!rounding.needsMoments()) {
            return;
        }
        List<String> quantized = shards.stream()
                .flatMap(s -> s.steps().stream())
                .filter(TensorStep.Quantize.class::isInstance)
                .map(TensorStep::name)
                .toList();
        List<String> without =
                quantized.stream().filter(w -> !rounding.moments().has(w)).toList();
        if (!quantized.isEmpty() && without.size() == quantized.size()) {
            throw new InvalidDataException(
                    "the second moments cover the input of none of the " + quantized.size() + " weights",
                    rounding.compensated() ? "--rounding gptq" : "--scale-search hessian",
                    "calibrate this model: octet calibrate MODEL -o FILE --data DATA --second-moments");
        }
        if (!without.isEmpty()) {
            notes.add(without.size()
                    + (rounding.compensated()
                            ? " weights are rounded to nearest"
                            : " weights have scales of the least error without weighting it")
                    + ", since no sample reached them or they share a tensor: "
                    + String.join(", ", without));
        }
    }

    private static void requireNew(TensorSpec target, Set<String> names, Shard shard) {
        if (!names.add(target.name())) {
            throw new MalformedModelException(
                    "two tensors would have the name '" + target.name() + "': a scale, and one that is there already",
                    shard.path().toString(),
                    "rename or remove the tensor of the checkpoint, or leave its weight as it is with `octet quantize"
                            + " --keep`");
        }
    }

    private void requireConsistent() {
        boolean claims = checkpoint
                .config()
                .map(c -> c.hasNonNull("quantization_config"))
                .orElse(false);
        if (claims && stored.weights().isEmpty()) {
            boolean codes = stored.plain().values().stream()
                    .anyMatch(t -> t.shape().rank() >= 2 && !FLOATS.contains(t.dtype()));
            if (codes) {
                throw new UnsupportedModelException(
                        "Octet does not read this quantisation of the weights"
                                + (stored.notes().isEmpty()
                                        ? ""
                                        : ": " + stored.notes().getFirst()),
                        checkpoint.folder().resolve("config.json").toString(),
                        "take the model it was made from, or have the tool that wrote it dequantise it");
            }
            throw new MalformedModelException(
                    "config.json has a quantization_config, but no tensor is quantised as it says",
                    checkpoint.folder().resolve("config.json").toString(),
                    "remove quantization_config if the weights are plain, or download the checkpoint again; `octet"
                            + " verify` says more");
        }
    }

    private void decide() {
        if (!(goal instanceof ConversionRequest.Quantize(Recipe recipe, Layout layout, LayoutOptions options))) {
            return;
        }
        requireMixable(layout, recipe, options);
        inputs.rounding().requirePossible(LayoutRecipes.scheme(layout, recipe, options), recipe.name());
        for (Recipe other : inputs.recipes().values()) {
            inputs.rounding().requirePossible(LayoutRecipes.scheme(layout, other, options), other.name());
        }
        List<WeightSelector.Candidate> candidates = new ArrayList<>();
        for (Shard shard : checkpoint.shards()) {
            for (ShardHeader.Entry e : shard.header().entries()) {
                candidate(e.spec()).ifPresent(candidates::add);
            }
        }
        decisions = new WeightSelector(
                        layout,
                        weight -> LayoutRecipes.scheme(layout, recipeOf(weight, recipe), options),
                        inputs.selection(),
                        checkpoint.config().orElse(null),
                        inputs.nonFinite())
                .decide(candidates);
        requireOneRecipeOfFused(recipe);
        requireInputScales();
    }

    private void requireOneRecipeOfFused(Recipe recipe) {
        Map<String, WeightDecision> first = new HashMap<>();
        for (WeightDecision d : decisions.values()) {
            String group = LinearNames.fusedGroup(d.name()).orElse(d.name());
            WeightDecision other = d.quantized() ? first.putIfAbsent(group, d) : null;
            if (other != null && !recipeOf(other.name(), recipe).equals(recipeOf(d.name(), recipe))) {
                throw new InvalidOptionException(
                        "engines fuse " + other.name() + " and " + d.name() + ", which are to have different recipes",
                        group + ": " + recipeOf(other.name(), recipe).name() + " and "
                                + recipeOf(d.name(), recipe).name(),
                        "give both the same recipe");
            }
        }
    }

    private Recipe recipeOf(String weight, Recipe recipe) {
        return inputs.recipes().getOrDefault(weight, recipe);
    }

    /** Several recipes need a layout that can say so. */
    private void requireMixable(Layout layout, Recipe recipe, LayoutOptions options) {
        if (inputs.recipes().isEmpty()) {
            return;
        }
        List<Recipe> all = new ArrayList<>(inputs.recipes().values());
        all.addFirst(recipe);
        for (Recipe one : all) {
            Optional<String> reason = layout.unmixable(one, options);
            if (reason.isPresent()) {
                throw new InvalidOptionException(
                        reason.get(),
                        inputs.recipes().size() + " weights have another recipe than " + recipe.name(),
                        "choose other recipes, or a layout that can mix them: "
                                + Layouts.ALL.stream()
                                        .filter(Layout::mixes)
                                        .map(Layout::name)
                                        .collect(Collectors.joining(", ")));
            }
        }
    }

    private Optional<WeightSelector.Candidate> candidate(TensorSpec spec) {
        StoredWeight weight = weightOf(spec);
        if (weight != null) {
            return Optional.of(new WeightSelector.Candidate(weight.name(), weight.shape(), DType.F32));
        }
        if (!stored.plain().containsKey(spec.name()) || spec.shape().rank() < 2) {
            return Optional.empty();
        }
        return Optional.of(new WeightSelector.Candidate(spec.name(), spec.shape(), spec.dtype()));
    }

    private final Map<String, StoredWeight> byData = new LinkedHashMap<>();

    private @Nullable StoredWeight weightOf(TensorSpec spec) {
        if (byData.isEmpty()) {
            stored.weights().values().forEach(w -> byData.put(w.data().name(), w));
        }
        return byData.get(spec.name());
    }

    private void requireInputScales() {
        if (inputs.inputScales().isEmpty()) {
            return;
        }
        List<String> missing = decisions.values().stream()
                .filter(WeightDecision::quantized)
                .map(d -> StoredWeight.moduleOf(d.name()))
                .filter(m -> !inputs.inputScales().containsKey(m))
                .toList();
        if (!missing.isEmpty()) {
            throw new InvalidDataException(
                    "there is no static scale of the input of " + missing.size() + " quantised weights: "
                            + String.join(", ", missing.subList(0, Math.min(5, missing.size()))),
                    "--statistics or --training-scales",
                    "calibrate with data that reaches every layer (every expert), or leave them out with `octet"
                            + " quantize --keep`");
        }
    }

    /** The configuration of the source describes the target, too. */
    private CheckpointPlan sameConfigPlan(List<ShardPlan> shards) throws IOException {
        Map<String, ObjectNode> files = new LinkedHashMap<>();
        ModelConfig.read(checkpoint.folder(), QUANT_CONFIG).ifPresent(c -> files.put(QUANT_CONFIG, c));
        return new CheckpointPlan(
                goal,
                Map.of(),
                shards,
                List.of(),
                checkpoint.config().map(ObjectNode::deepCopy),
                files,
                List.copyOf(notes),
                inputs.merged(),
                inputs.rounding());
    }

    private void addSteps(TensorSpec spec, List<TensorStep> steps) throws IOException {
        StoredWeight weight = weightOf(spec);
        if (goal instanceof ConversionRequest.Merge) {
            addMerged(spec, weight, steps);
            return;
        }
        if (goal instanceof ConversionRequest.Copy) {
            steps.add(new TensorStep.Copy(tensor(spec.name()), spec));
            return;
        }
        if (weight != null) {
            addWeight(weight, steps);
        } else if (stored.plain().containsKey(spec.name())) {
            addPlain(spec, steps);
        } else if (stored.others().containsKey(spec.name())) {
            attention.addStored(spec, steps, notes);
        } // else a weight's scale, which the weight's step writes
        inputs.merged().added().forEach((added, from) -> {
            if (from.equals(spec.name())
                    && checkpoint.tensor(added) == null) { // next to the weight that it starts from
                TensorSpec own = new TensorSpec(added, spec.dtype(), spec.shape());
                targetConfig.keep(added, spec.shape());
                steps.add(new TensorStep.Merge(added, spec.byteSize(), own, Exactness.ONE_ROUNDING));
            }
        });
        LinearNames.attention(weight == null ? spec.name() : weight.name()).ifPresent(a -> attention.addNew(a, steps));
    }

    private void addPlain(TensorSpec spec, List<TensorStep> steps) throws IOException {
        WeightDecision decision = decisions.get(spec.name());
        if (decision != null
                && decision.quantized()
                && goal instanceof ConversionRequest.Quantize(Recipe recipe, Layout layout, LayoutOptions options)) {
            steps.add(quantize(
                    spec.name(),
                    spec.shape(),
                    spec.dtype(),
                    spec.byteSize(),
                    recipeOf(spec.name(), recipe),
                    layout,
                    options,
                    Exactness.ONE_ROUNDING));
            return;
        }
        targetConfig.keep(spec.name(), spec.shape());
        steps.add(
                isMerged(spec.name())
                        ? new TensorStep.Merge(spec.name(), spec.byteSize(), spec, Exactness.ONE_ROUNDING)
                        : new TensorStep.Copy(tensor(spec.name()), spec));
    }

    private boolean isMerged(String weight) {
        return inputs.merged().names().contains(weight);
    }

    /** Weights that adapters change get new values in their own form; all else is copied. */
    private void addMerged(TensorSpec spec, @Nullable StoredWeight weight, List<TensorStep> steps) throws IOException {
        if (weight != null && isMerged(weight.name())) {
            WeightReader.requireScale(weight);
            requireStreamable(weight);
            steps.add(requantize(weight));
        } else if (isMerged(spec.name())) {
            steps.add(new TensorStep.Merge(spec.name(), spec.byteSize(), spec, Exactness.ONE_ROUNDING));
        } else if (isOfRewritten(spec)) {
            TensorStep step = rescaled.get(spec.name());
            if (step != null) {
                steps.add(step);
            }
        } else {
            steps.add(new TensorStep.Copy(tensor(spec.name()), spec));
        }
    }

    /** Whether a tensor belongs to a weight that is not copied; the step of its codes writes all of its tensors. */
    private boolean isOfRewritten(TensorSpec spec) throws IOException {
        if (rewritten.isEmpty()) {
            for (StoredWeight w : stored.weights().values()) {
                int growth = isMerged(w.name()) || w.unread() != null || w.scale() == null
                        ? 0
                        : sharing(w).growth();
                if (growth > 0) {
                    rescaled.put(w.data().name(), rescale(w, growth));
                }
                if (growth > 0 || isMerged(w.name())) {
                    w.tensors().forEach(t -> rewritten.add(t.name()));
                }
            }
        }
        return rewritten.contains(spec.name());
    }

    private SharedScales.Sharing sharing(StoredWeight weight) throws IOException {
        boolean whole = weight.granularity() instanceof Granularity.PerTensor || weight.globalScale() != null;
        return whole ? sharedScales.of(weight) : new SharedScales.Sharing(null, Float.NaN, 0);
    }

    /** A weight without an adapter takes part in the growth of a scale that it shares. */
    private TensorStep rescale(StoredWeight weight, int growth) throws IOException {
        notes.add(weight.name() + " shares its scale with merged weights, which need 2^" + growth
                + " times the scale: its codes are shifted");
        float up = Math.scalb(1f, growth);
        return weight.globalScale() != null
                ? new TensorStep.Relayout(weight, weight, 1 / up, up, Exactness.ONE_ROUNDING)
                : requantize(weight);
    }

    private TensorStep requantize(StoredWeight weight) throws IOException {
        WeightReader reader = WeightReader.of(checkpoint, stored);
        OperandSpec scheme = StoredScheme.of(weight, stored, checkpoint).scheme();
        SharedScales.Sharing sharing = sharing(weight);
        Float inputScale = reader.inputScale(weight.name());
        return new TensorStep.Quantize(
                weight.name(),
                DType.F32,
                weight.data().byteSize(),
                weight,
                scheme,
                sharing.group(),
                null,
                inputScale == null ? Float.NaN : inputScale,
                sharing.baseScale(),
                Exactness.DOUBLE_ROUNDING);
    }

    private void addWeight(StoredWeight weight, List<TensorStep> steps) throws IOException {
        WeightReader.requireScale(weight);
        requireStreamable(weight);
        switch (goal) {
            case ConversionRequest.Merge _, ConversionRequest.Copy _ ->
                throw new IllegalStateException("planned by addSteps");
            case ConversionRequest.Dequantize _ -> steps.add(dequantize(weight));
            case ConversionRequest.Quantize(Recipe recipe, Layout layout, LayoutOptions options) -> {
                WeightDecision decision = decisions.get(weight.name());
                if (decision != null && decision.quantized()) {
                    steps.add(quantize(
                            weight.name(),
                            weight.shape(),
                            DType.F32,
                            weight.data().byteSize(),
                            recipeOf(weight.name(), recipe),
                            layout,
                            options,
                            Exactness.DOUBLE_ROUNDING));
                } else {
                    targetConfig.keep(weight.name(), weight.shape());
                    steps.add(dequantize(weight));
                }
            }
            case ConversionRequest.Convert(Layout layout, LayoutOptions options, Optional<Recipe> recipe) ->
                steps.add(convert(weight, layout, options, recipe));
        }
    }

    private static void requireStreamable(StoredWeight weight) {
        long cols = Blocks.cols(weight.shape());
        if (cols > Tile.maxCols(weight.granularity())) {
            throw new UnsupportedModelException(
                    "rows of " + cols + " elements; at most " + Tile.maxCols(weight.granularity()) + " are streamed",
                    "weight '" + weight.name() + "' of shape " + weight.shape(),
                    "no layer of a model is as wide; look at the checkpoint with `octet inspect`");
        }
    }

    private TensorStep dequantize(StoredWeight weight) throws IOException {
        TensorSpec target = new TensorSpec(weight.name(), plainType, weight.shape());
        if (isMerged(weight.name())) {
            return new TensorStep.Merge(weight.name(), weight.data().byteSize(), target, Exactness.ONE_ROUNDING);
        }
        return new TensorStep.Dequantize(weight, target, exactnesses.dequantize(weight, plainType));
    }

    private TensorStep quantize(
            String name,
            Shape shape,
            DType type,
            long sourceBytes,
            Recipe recipe,
            Layout layout,
            LayoutOptions options,
            Exactness exactness)
            throws IOException {
        OperandSpec scheme = LayoutRecipes.scheme(layout, recipe, options);
        Float inputScale = inputs.inputScales().get(StoredWeight.moduleOf(name));
        if (inputScale == null && options.staticInputs()) {
            inputScale = WeightReader.of(checkpoint, stored).inputScale(name);
        }
        StoredWeight target = layout.place(name, shape, scheme, options);
        targetConfig.add(target, recipe, options);
        boolean whole = scheme.perTensor() || scheme.twoLevels();
        StoredTensor kept = keptScales(target);
        return new TensorStep.Quantize(
                name,
                isMerged(name) ? DType.F32 : type,
                sourceBytes,
                target,
                scheme,
                whole ? LinearNames.fusedGroup(name).orElse(name) : null,
                kept,
                inputScale == null ? Float.NaN : inputScale,
                Float.NaN,
                exactness);
    }

    /** The kept scales of a weight; null to compute its scales. */
    private @Nullable StoredTensor keptScales(StoredWeight target) {
        Checkpoint scales = inputs.keptScales();
        if (scales == null) {
            return null;
        }
        ScaleTensor scale = target.scale();
        ScaleTensor global = target.globalScale();
        StoredTensor kept = scale == null ? null : scales.tensor(scale.name());
        boolean whole = scale != null
                && kept != null
                && kept.dtype() == scale.spec().dtype()
                && kept.shape().equals(scale.spec().shape())
                && (global == null || isSame(global.spec(), scales.tensor(global.name())))
                && target.zeroPoint() == null;
        if (!whole) {
            throw new UnsupportedModelException(
                    "the kept scales have none of this form for weight '" + target.name() + "'"
                            + (kept == null ? "" : ": " + kept.spec()),
                    scales.path().toString(),
                    "quantise with the recipe, target and choices that the checkpoint had, or without --keep-scales;"
                            + " scales with zero points cannot be used again");
        }
        return kept;
    }

    private static boolean isSame(TensorSpec wanted, @Nullable StoredTensor kept) {
        return kept != null && kept.spec().equals(wanted);
    }

    private TensorStep convert(StoredWeight weight, Layout layout, LayoutOptions options, Optional<Recipe> recipe)
            throws IOException {
        boolean staticInput = weight.inputScale() != null;
        LayoutOptions own = options.withStaticInputs(staticInput);
        boolean fnuz = weight.codes() == QuantType.E4M3FNUZ;
        for (Recipe candidate : LayoutRecipes.alike(recipe, layout, own, weight)) {
            OperandSpec scheme = LayoutRecipes.scheme(layout, candidate, own);
            StoredWeight target = layout.place(weight.name(), weight.shape(), scheme, own);
            if (isPowerOfTwoOnly(target) && !isPowerOfTwoOnly(weight)) {
                continue; // the codes would mean something else
            }
            if (fnuz && !exactnesses.areSharedCodes(weight)) {
                notes.add(weight.name() + " holds codes that E4M3FN has no number for (240 times the scale, NaN)");
                continue;
            }
            targetConfig.add(target, candidate, own);
            return new TensorStep.Relayout(weight, target, fnuz ? 0.5f : 1, 1, exactnesses.relayout(weight, target));
        }
        if (recipe.isPresent()) {
            OperandSpec scheme = LayoutRecipes.scheme(layout, recipe.get(), own);
            Optional<String> refusal = layout.refusal(scheme, weight.shape());
            if (refusal.isPresent()) {
                targetConfig.keep(weight.name(), weight.shape());
                notes.add(weight.name() + " becomes " + plainType + ": " + refusal.get());
                return dequantize(weight);
            }
            return quantize(
                    weight.name(),
                    weight.shape(),
                    DType.F32,
                    weight.data().byteSize(),
                    recipe.get(),
                    layout,
                    own,
                    Exactness.DOUBLE_ROUNDING);
        }
        throw new UnsupportedModelException(
                "layout " + layout.name() + " has no way to say " + weight.codes() + " "
                        + weight.granularity().text()
                        + (weight.scale() == null
                                ? ""
                                : " with " + weight.scale().number() + " scales"),
                "weight '" + weight.name() + "' of shape " + weight.shape(),
                "give --recipe to round the values once more ("
                        + String.join(", ", LayoutRecipes.recipesOf(layout, own)) + "), or convert to "
                        + String.join(", ", LayoutRecipes.otherThan(layout)));
    }

    private static boolean isPowerOfTwoOnly(StoredWeight weight) {
        return weight.scale() != null && weight.scale().number() == DType.F8_E8M0;
    }

    private StoredTensor tensor(String name) {
        StoredTensor tensor = checkpoint.tensor(name);
        if (tensor == null) {
            throw new IllegalArgumentException("there is no tensor '" + name + "'");
        }
        return tensor;
    }

    /** The file's metadata without the entries on its old layout, plus the format mark that PyTorch loaders require. */
    private Map<String, String> metadata(Shard shard) {
        Map<String, String> metadata = new TreeMap<>();
        if (goal instanceof ConversionRequest.Merge) {
            return shard.header().metadata();
        }
        shard.header().metadata().forEach((key, value) -> {
            boolean describesLayout = key.equals("tensor_names") || value.startsWith("{\"_type\"");
            if (!describesLayout) {
                metadata.put(key, value);
            }
        });
        metadata.put("format", "pt");
        return metadata;
    }

    private void requireSomething(List<ShardPlan> shards) {
        boolean none = shards.stream().flatMap(s -> s.steps().stream()).noneMatch(TensorStep::isOfWeight);
        if (!none || goal instanceof ConversionRequest.Copy) {
            return;
        }
        if (goal instanceof ConversionRequest.Quantize) {
            Map<String, Long> reasons = new TreeMap<>();
            decisions.values().forEach(d -> reasons.merge(d.reason(), 1L, Long::sum));
            throw new UnsupportedModelException(
                    "there is no weight to quantise: "
                            + (reasons.isEmpty()
                                    ? "the checkpoint has no matrices"
                                    : reasons.entrySet().stream()
                                            .map(e -> e.getKey() + " (" + e.getValue() + ")")
                                            .collect(Collectors.joining("; "))),
                    checkpoint.path().toString(),
                    "give another recipe or target; `octet quantize` has --include for heads, routers and embeddings");
        }
        throw new UnsupportedModelException(
                "no weight of the checkpoint is quantised",
                checkpoint.path().toString(),
                "give a quantised checkpoint; to quantise this one, use `octet quantize`");
    }
}
