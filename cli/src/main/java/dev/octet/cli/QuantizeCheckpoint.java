package dev.octet.cli;

import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.checkpoint.Goal;
import dev.octet.converter.checkpoint.InputScales;
import dev.octet.quant.calibrate.Absmax;
import dev.octet.quant.calibrate.Calibrator;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.Layouts;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.statistics.StatisticsFile;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.apache.commons.cli.Option;

/** {@code octet quantize} on a checkpoint of tensors; {@link QuantizeCommand} calls it when the model has no graph. */
final class QuantizeCheckpoint {
    static final Option KEEP_SCALES = Flags.flag(
            "keep-scales",
            "checkpoints: use the scales again that 'octet dequantize --keep-scales' kept beside the model");

    /** Those of quantize that only checkpoints have a use for. */
    static final List<Option> OPTIONS = List.of(
            CheckpointFlags.ONLY,
            CheckpointFlags.INCLUDE,
            CheckpointFlags.SCALE_FORMAT,
            CheckpointFlags.SCALE_TYPE,
            CheckpointFlags.ALLOW_NONFINITE,
            CheckpointFlags.EXACT_ONLY,
            KEEP_SCALES);

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
            Optional<InputScales> inputs = inputScales(arguments, choices, recipe, converter);
            Goal goal = new Goal.Quantize(recipe, layout, CheckpointFlags.layoutOptions(arguments, inputs.isPresent()));
            return job.run(converter, goal, inputs);
        }
    }

    /** The layout that most consumers of a recipe read. */
    private static Layout defaultLayout(Recipe recipe) {
        return Layouts.named(recipe.equals(Recipes.FP8_BLOCK) ? "fp8" : "compressed-tensors")
                .orElseThrow();
    }

    private static Optional<InputScales> inputScales(
            Arguments arguments, QuantizeCommand.Choices choices, Recipe recipe, CheckpointConverter converter)
            throws IOException {
        Optional<Path> file = arguments.path(choices.statistics());
        if (file.isEmpty()) {
            return Optional.empty();
        }
        Calibrator calibrator =
                arguments.text(choices.calibrator()).map(Calibrator::parse).orElse(new Absmax());
        return Optional.of(converter.inputScales(StatisticsFile.read(file.get()), calibrator, recipe));
    }
}
