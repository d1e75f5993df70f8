package dev.octet.cli;

import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.checkpoint.ConversionRequest;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.Layouts;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.util.List;
import org.apache.commons.cli.Option;

/** {@code octet quantize} on a checkpoint of tensors; {@link QuantizeCommand} calls it when the model has no graph. */
final class QuantizeCheckpoint {
    static final Option KEEP_SCALES = Flags.flag(
            "keep-scales",
            "checkpoints: reuse the scales that 'octet dequantize --keep-scales' kept in the model's folder");

    /** Those of quantize that only checkpoints have a use for. */
    static final List<Option> OPTIONS = List.of(
            CheckpointFlags.ONLY,
            CheckpointFlags.INCLUDE,
            CheckpointFlags.SCALE_FORMAT,
            CheckpointFlags.SCALE_TYPE,
            CheckpointFlags.ALLOW_NONFINITE,
            CheckpointFlags.EXACT_ONLY,
            KEEP_SCALES,
            StaticScales.KV_CACHE);

    private QuantizeCheckpoint() {}

    static ExitCode run(Arguments arguments, Screen screen, QuantizeCommand.Choices choices) throws IOException {
        arguments.refuse(
                choices.graphOnly(),
                "needs a model with a graph; a checkpoint has only tensors",
                "leave it out, or give an .onnx file");
        CheckpointJob job = CheckpointJob.of(arguments, screen);
        Recipe recipe = arguments.choice(choices.recipe(), CheckpointFlags.RECIPES, Recipes.FP8_DYNAMIC);
        Layout layout = arguments.choice(choices.target(), CheckpointFlags.LAYOUTS, defaultLayout(recipe));
        try (CheckpointConverter converter = CheckpointConverter.open(arguments.operand(0))) {
            StaticScales scales = StaticScales.of(arguments, choices, recipe, layout, converter);
            boolean staticInputs = scales.inputs().isPresent();
            ConversionRequest goal = new ConversionRequest.Quantize(
                    recipe, layout, CheckpointFlags.layoutOptions(arguments, staticInputs));
            return job.run(converter, goal, scales);
        }
    }

    /** The layout that most consumers of a recipe read. */
    private static Layout defaultLayout(Recipe recipe) {
        return Layouts.named(recipe.equals(Recipes.FP8_BLOCK) ? "fp8" : "compressed-tensors")
                .orElseThrow();
    }
}
