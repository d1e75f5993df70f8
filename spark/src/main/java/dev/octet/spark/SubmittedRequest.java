package dev.octet.spark;

import dev.octet.converter.checkpoint.Selection;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.FloatName;
import dev.octet.pipeline.CheckpointShards;
import dev.octet.pipeline.Convert;
import dev.octet.pipeline.Dequantize;
import dev.octet.pipeline.Job;
import dev.octet.pipeline.Quantize;
import dev.octet.pipeline.Target;
import dev.octet.quant.calibrate.Calibrator;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import org.apache.spark.SparkFiles;

/**
 * A request as it was typed, which each process reads anew.
 *
 * @param arguments the verb and what follows it
 * @param statistics name of the file of statistics among those that Spark brought to each machine; empty without
 */
record SubmittedRequest(List<String> arguments, String statistics) implements ShardRequest {
    private static final Map<String, Recipe> RECIPES = Recipes.byName(Recipes.CHECKPOINT);
    private static final Map<String, Target.Checkpoint> TARGETS = targets();

    SubmittedRequest {
        arguments = List.copyOf(arguments);
    }

    private static Map<String, Target.Checkpoint> targets() {
        Map<String, Target.Checkpoint> byName = new LinkedHashMap<>();
        Target.CHECKPOINTS.forEach(t -> byName.put(t.label(), t));
        return byName;
    }

    @Override
    public CheckpointShards open(Path model, Path output, Job job) throws IOException {
        SubmittedVerb options = SubmittedVerb.parse(arguments);
        return switch (options.verb()) {
            case "quantize" -> CheckpointShards.of(quantize(options, model, output), job);
            case "dequantize" -> CheckpointShards.of(dequantize(options, model, output), job);
            case "convert" -> CheckpointShards.of(convert(options, model, output), job);
            default -> throw new IllegalStateException(options.verb() + " does not work by shards");
        };
    }

    private Quantize.CheckpointRequest quantize(SubmittedVerb options, Path model, Path output) {
        Recipe recipe = options.choice("recipe", RECIPES).orElse(Recipes.FP8_DYNAMIC);
        Quantize.CheckpointRequest request = Quantize.CheckpointRequest.of(model, output, recipe);
        request = request.withTarget(options.choice("target", TARGETS).orElse(request.target()))
                .withSelection(new Selection(
                        patterns(options, "keep"), patterns(options, "only"), patterns(options, "include"), Map.of()));
        Optional<String> calibrator = options.text("calibrator");
        if (calibrator.isPresent()) {
            request = request.withCalibrator(Calibrator.parse(calibrator.get()));
        }
        if (!statistics.isEmpty()) {
            request = request.withStatistics(Path.of(SparkFiles.get(statistics)));
        }
        if (options.has("keep-scales")) {
            request = request.with(Quantize.Choice.KEEP_SCALES);
        }
        return options.has("exact-only") ? request.with(Quantize.Choice.EXACT_ONLY) : request;
    }

    private static List<Pattern> patterns(SubmittedVerb options, String name) {
        return options.texts(name).stream()
                .map(text -> {
                    try {
                        return Pattern.compile(text);
                    } catch (PatternSyntaxException e) {
                        throw new InvalidOptionException(
                                "--" + name + " '" + text + "' is not a regular expression: " + e.getDescription(),
                                "character " + e.getIndex(),
                                "escape special characters with \\",
                                e);
                    }
                })
                .toList();
    }

    private static Dequantize.Request dequantize(SubmittedVerb options, Path model, Path output) {
        Dequantize.Request request = Dequantize.Request.of(model, output)
                .withType(options.choice("dtype", FloatName.types()).orElse(DType.BF16));
        if (options.has("keep-scales")) {
            request = request.with(Dequantize.Choice.KEEP_SCALES);
        }
        return options.has("exact-only") ? request.with(Dequantize.Choice.EXACT_ONLY) : request;
    }

    private static Convert.ToLayout convert(SubmittedVerb options, Path model, Path output) {
        options.required("target");
        Convert.ToLayout request = Convert.ToLayout.of(
                model, output, options.choice("target", TARGETS).orElseThrow());
        Optional<Recipe> recipe = options.choice("recipe", RECIPES);
        if (recipe.isPresent()) {
            request = request.withRecipe(recipe.get());
        }
        return options.has("exact-only") ? request.exactly() : request;
    }
}
