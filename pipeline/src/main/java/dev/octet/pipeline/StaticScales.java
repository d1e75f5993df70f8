package dev.octet.pipeline;

import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.checkpoint.CacheScales;
import dev.octet.converter.checkpoint.InputScales;
import dev.octet.converter.transform.InputChange;
import dev.octet.converter.transform.ModelTransform;
import dev.octet.quant.block.Granularity;
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
 * What the statistics of a request give: static scales of inputs, of the KV cache, or both.
 *
 * @param inputs empty where activations are quantised at run time, or not at all
 * @param cache none where the KV cache is left alone
 * @param notes what a user should know
 */
record StaticScales(Optional<InputScales> inputs, CacheScales cache, List<String> notes) {
    /** Nothing is static. */
    static final StaticScales NONE = new StaticScales(Optional.empty(), CacheScales.NONE, List.of());

    /**
     * The scales that a request asks for.
     *
     * @throws dev.octet.formats.error.InvalidDataException when the statistics do not give them, naming the layers
     * @throws IOException when the statistics cannot be read
     */
    static StaticScales of(
            Quantize.CheckpointRequest request, CheckpointConverter converter, ModelTransform transform, Job job)
            throws IOException {
        boolean cache = request.has(Quantize.Choice.KV_CACHE);
        Optional<Path> file = request.statistics();
        if (cache && !transform.changedValues().isEmpty()) {
            throw job.invalid(
                    "--kv-cache fp8 takes scales of values as they were before --transform changes "
                            + transform.changedValues().getFirst(),
                    "write the transformed model with --recipe none, calibrate that, and quantise it with --kv-cache"
                            + " fp8");
        }
        if (file.isEmpty()) {
            if (cache) {
                throw job.invalid(
                        "--kv-cache fp8 needs the statistics of keys and values",
                        "give --statistics FILE, made by 'octet calibrate'");
            }
            return NONE;
        }
        Recipe recipe = request.recipe();
        Statistics statistics = StatisticsFile.read(file.get());
        List<String> notes = new ArrayList<>();
        CacheScales scales = cache ? converter.cacheScales(statistics) : CacheScales.NONE;
        if (cache) {
            notes.add("engines keep the KV cache in FP8 with these scales unless they are told otherwise (vLLM:"
                    + " --kv-cache-dtype)");
        } else {
            int known = converter.cachesKnownTo(statistics).size();
            if (known > 0) {
                notes.add("the statistics hold keys and values of " + known
                        + " attention layers; --kv-cache fp8 writes their scales");
            }
        }
        if (request.has(Quantize.Choice.FLOATS)) {
            return new StaticScales(Optional.empty(), CacheScales.NONE, List.of());
        }
        boolean forTransform =
                !transform.isNone() && !isStatic(recipe, request.target().layout());
        if (forTransform && !cache) {
            return new StaticScales(Optional.empty(), scales, notes);
        }
        boolean rounds = request.rounding().needsMoments();
        if ((cache || rounds) && !isStatic(recipe, request.target().layout())) {
            if (cache) {
                notes.add("activations of " + recipe.name()
                        + " are quantised at run time: of the statistics only keys and values are used");
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
