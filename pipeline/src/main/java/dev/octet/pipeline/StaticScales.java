package dev.octet.pipeline;

import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.checkpoint.AttentionScales;
import dev.octet.converter.checkpoint.InputScales;
import dev.octet.converter.transform.InputChange;
import dev.octet.converter.transform.ModelTransform;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.layout.AttentionScheme;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.LayoutOptions;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.statistics.Statistics;
import dev.octet.quant.statistics.StatisticsFile;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * What the statistics of a request give: static scales of inputs, of attention, or both.
 *
 * @param inputs empty where activations are quantised at run time, or not at all
 * @param attention none where attention and its cache are left alone
 * @param notes what a user should know
 */
record StaticScales(Optional<InputScales> inputs, AttentionScales attention, List<String> notes) {
    /** Nothing is static. */
    static final StaticScales NONE = new StaticScales(Optional.empty(), AttentionScales.NONE, List.of());

    /**
     * The scales that a request asks for.
     *
     * @throws dev.octet.formats.error.InvalidDataException when the statistics do not give them, naming the layers
     * @throws IOException when the statistics cannot be read
     */
    static StaticScales of(
            Quantize.CheckpointRequest request, CheckpointConverter converter, ModelTransform transform, Job job)
            throws IOException {
        AttentionScheme scheme = request.attention();
        boolean attention = scheme != AttentionScheme.NONE;
        Optional<Path> file = request.statistics();
        requireSensible(request, transform, job);
        if (request.has(Quantize.Choice.TRAINING_SCALES)) {
            return ofTraining(request, converter, transform, job);
        }
        if (file.isEmpty()) {
            if (attention) {
                throw job.invalid(
                        scheme.option() + " needs the statistics of "
                                + (scheme.queries() ? "queries, keys and values" : "keys and values"),
                        "give --statistics FILE, made by 'octet calibrate'");
            }
            return NONE;
        }
        Recipe recipe = request.recipe();
        Statistics statistics = StatisticsFile.read(file.get());
        List<String> notes = new ArrayList<>();
        AttentionScales scales = attention ? converter.attentionScales(statistics, scheme) : AttentionScales.NONE;
        if (attention) {
            notes.add("engines keep the KV cache in FP8 with these scales unless they are told otherwise (vLLM:"
                    + " --kv-cache-dtype)");
            if (scheme.perHead()) {
                notes.add("vLLM takes scales per head with its Flash Attention backend only");
            }
        } else {
            int known = converter.cachesKnownTo(statistics).size();
            if (known > 0) {
                notes.add("the statistics hold keys and values of " + known
                        + " attention layers; --kv-cache fp8 writes their scales");
            }
        }
        if (request.has(Quantize.Choice.FLOATS)) {
            return new StaticScales(Optional.empty(), AttentionScales.NONE, List.of());
        }
        String used = scheme.queries() ? "queries, keys and values" : "keys and values";
        boolean forTransform =
                !transform.isNone() && !isStatic(recipe, request.target().layout());
        if (forTransform && !attention) {
            return new StaticScales(Optional.empty(), scales, notes);
        }
        boolean rounds = request.rounding().needsMoments();
        if ((attention || rounds) && !isStatic(recipe, request.target().layout())) {
            if (attention) {
                notes.add("activations of " + recipe.name() + " are quantised at run time: of the statistics only "
                        + used + " are used");
            }
            return new StaticScales(Optional.empty(), scales, notes);
        }
        if (job.dryRun() && !isStatic(recipe, request.target().layout())) {
            notes.add("activations of " + recipe.name()
                    + " are quantised at run time: the statistics only predict errors; leave them out to write");
            return new StaticScales(Optional.empty(), scales, notes);
        }
        if (rounds && transform.inputs().values().stream().anyMatch(InputChange::mixes)) {
            notes.add("no static scales of activations: a rotation mixes their channels, and the statistics are of the"
                    + " model as it was; to have them, write the rotated model with --recipe none, calibrate that, and"
                    + " quantise it");
            return new StaticScales(Optional.empty(), scales, notes);
        }
        return new StaticScales(
                Optional.of(converter.inputScales(
                        ChangedStatistics.of(statistics, transform, request.calibrator()),
                        request.calibrator(),
                        recipe)),
                scales,
                notes);
    }

    /** Scales of inputs that FP8 training left in the checkpoint. */
    private static StaticScales ofTraining(
            Quantize.CheckpointRequest request, CheckpointConverter converter, ModelTransform transform, Job job)
            throws IOException {
        Recipe recipe = request.recipe();
        if (request.statistics().isPresent()) {
            throw job.invalid("--training-scales and --statistics are both given", "give one of them");
        }
        if (request.attention() != AttentionScheme.NONE) {
            throw job.invalid(
                    request.attention().option() + " needs statistics, which training does not keep",
                    "leave --training-scales out and give --statistics FILE, which 'octet calibrate' makes");
        }
        if (!isStatic(recipe, request.target().layout()) || request.has(Quantize.Choice.FLOATS)) {
            throw job.invalid(
                    "--training-scales gives static scales of inputs, and "
                            + (request.has(Quantize.Choice.FLOATS) ? "--recipe none" : recipe.name()) + " in "
                            + request.target().label() + " has none",
                    "give --recipe fp8, or leave it out");
        }
        if (!transform.isNone()) {
            throw job.invalid(
                    "--training-scales is of inputs as training had them, which --transform changes",
                    "write the transformed model with --recipe none, calibrate that, and quantise it");
        }
        InputScales scales = converter.trainedInputScales(recipe);
        return new StaticScales(
                Optional.of(scales),
                AttentionScales.NONE,
                List.of("static scales of " + scales.byModule().size()
                        + " inputs are the largest amaxes that FP8 training kept"));
    }

    /** Refuses scales of attention where there is no place for them, or the statistics are of another model. */
    private static void requireSensible(Quantize.CheckpointRequest request, ModelTransform transform, Job job) {
        AttentionScheme scheme = request.attention();
        if (scheme == AttentionScheme.NONE) {
            return;
        }
        String option = scheme.option();
        if (request.has(Quantize.Choice.FLOATS)) {
            throw job.invalid(
                    option + " has no place in a model of floats, which --recipe none writes",
                    "leave it out, and give it when the written model is quantised");
        }
        if (!transform.changedValues().isEmpty()) {
            throw job.invalid(
                    option + " takes scales of values as they were before --transform changes "
                            + transform.changedValues().getFirst(),
                    "write the transformed model with --recipe none, calibrate that, and quantise it with " + option);
        }
        Optional<String> reason = request.target().layout().unsupported(scheme);
        if (reason.isPresent()) {
            throw job.invalid(
                    reason.get(),
                    "give --target compressed-tensors, or take one scale for the keys and one for the values: "
                            + AttentionScheme.CACHE.option());
        }
    }

    /** Whether the recipe's activations have one scale, and the layout a place for it. */
    private static boolean isStatic(Recipe recipe, Layout layout) {
        boolean perToken = recipe.input() != null && recipe.input().granularity() instanceof Granularity.PerToken;
        LayoutOptions defaults = LayoutOptions.defaults();
        return !perToken
                && layout.unsupported(recipe, defaults.withStaticInputs(true)).isEmpty();
    }

    /** Multipliers by module; empty where nothing is static. */
    Map<String, Float> byModule() {
        return inputs.map(InputScales::byModule).orElse(Map.of());
    }

    /** Experts that no sample reached. */
    List<String> unreached() {
        return inputs.map(InputScales::unreached).orElse(List.of());
    }
}
