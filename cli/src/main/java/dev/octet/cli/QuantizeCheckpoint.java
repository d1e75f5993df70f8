package dev.octet.cli;

import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.checkpoint.CheckpointPlan;
import dev.octet.converter.checkpoint.CheckpointResult;
import dev.octet.converter.checkpoint.Goal;
import dev.octet.converter.checkpoint.InputScales;
import dev.octet.converter.checkpoint.RunOptions;
import dev.octet.quant.calibrate.Absmax;
import dev.octet.quant.calibrate.Calibrator;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import dev.octet.quant.statistics.StatisticsFile;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.commons.cli.Option;

/** {@code octet quantize} on a checkpoint of tensors; {@link QuantizeCommand} calls it when the model has no graph. */
final class QuantizeCheckpoint {
    static final Option KEEP_SCALES = Flags.flag(
            "keep-scales",
            "checkpoints: use the scales again that 'octet dequantize --keep-scales' kept beside the model");

    private QuantizeCheckpoint() {}

    static ExitCode run(Arguments arguments, Screen screen, QuantizeCommand.Choices choices) throws IOException {
        choices.refuseForCheckpoints(arguments);
        Path output = arguments.requiredPath(Flags.OUTPUT);
        Recipe recipe = arguments.choice(choices.recipe(), CheckpointFlags.RECIPES, Recipes.FP8_DYNAMIC);
        Layout layout = arguments.choice(choices.target(), CheckpointFlags.LAYOUTS, defaultLayout(recipe));
        try (CheckpointConverter converter = CheckpointConverter.open(arguments.operand(0));
                Progress progress = arguments.progress(screen)) {
            Optional<InputScales> inputs = inputScales(arguments, choices, recipe, converter);
            Goal goal = new Goal.Quantize(recipe, layout, CheckpointFlags.layoutOptions(arguments, inputs.isPresent()));
            CheckpointConverter.Request request = CheckpointFlags.request(
                    arguments, inputs.map(InputScales::byModule).orElse(Map.of()), KEEP_SCALES);
            RunOptions options = CheckpointFlags.runOptions(arguments, "quantising", progress);
            CheckpointPlan plan = converter.plan(
                    goal, request, CheckpointFlags.runOptions(arguments, "looking for NaN and infinity", progress));
            CheckpointResult result =
                    arguments.has(Flags.DRY_RUN) ? null : converter.run(goal, request, plan, output, options);
            progress.end();
            CheckpointAnswer.of(
                            converter,
                            plan,
                            output.toString(),
                            recipe.name(),
                            layout.name(),
                            result,
                            inputs.map(InputScales::notes).orElse(List.of()))
                    .print(arguments, screen);
        }
        return ExitCode.OK;
    }

    /** The layout that most consumers of a recipe read. */
    private static Layout defaultLayout(Recipe recipe) {
        String name = recipe.equals(Recipes.FP8_BLOCK) ? "fp8" : "compressed-tensors";
        return Stream.ofNullable(CheckpointFlags.LAYOUTS.get(name)).findFirst().orElseThrow();
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
        List<String> weights = Stream.concat(
                        converter.stored().plain().entrySet().stream()
                                .filter(e -> e.getValue().shape().rank() >= 2)
                                .map(Map.Entry::getKey),
                        converter.stored().weights().keySet().stream())
                .toList();
        return Optional.of(InputScales.of(StatisticsFile.read(file.get()), calibrator, recipe, weights));
    }
}
