package dev.octet.cli;

import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.checkpoint.CheckpointPlan;
import dev.octet.converter.checkpoint.CheckpointResult;
import dev.octet.converter.checkpoint.Goal;
import dev.octet.converter.checkpoint.RunOptions;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.recipe.Recipe;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.commons.cli.Option;

/** {@code octet convert MODEL -o OUT --target T}: a quantised checkpoint to another layout. */
final class ConvertCommand implements Command {
    private static final Option TARGET =
            Flags.value("target", "NAME", String.join(", ", CheckpointFlags.LAYOUTS.keySet()) + " (must be given)");
    private static final Option RECIPE = Flags.value(
            "recipe",
            "NAME",
            "round weights once more that the target cannot hold as they are: "
                    + String.join(", ", CheckpointFlags.RECIPES.keySet()) + " (default: refuse them)");

    @Override
    public String name() {
        return "convert";
    }

    @Override
    public String summary() {
        return "Bring a quantised checkpoint into another layout, saying which values change.";
    }

    @Override
    public List<String> operands() {
        return List.of("MODEL");
    }

    @Override
    public List<Option> options() {
        return List.of(
                Flags.OUTPUT,
                TARGET,
                RECIPE,
                CheckpointFlags.SCALE_FORMAT,
                CheckpointFlags.SCALE_TYPE,
                CheckpointFlags.EXACT_ONLY,
                Flags.THREADS,
                Flags.FORCE,
                Flags.DRY_RUN);
    }

    @Override
    public List<String> examples() {
        return List.of(
                "octet convert DeepSeek-V3 -o DeepSeek-V3-ct --target compressed-tensors --exact-only",
                "octet convert llama-fp8 -o llama-block --target fp8 --recipe fp8-block");
    }

    @Override
    public ExitCode run(Arguments arguments, Screen screen) throws IOException {
        Path output = arguments.requiredPath(Flags.OUTPUT);
        if (arguments.text(TARGET).isEmpty()) {
            throw arguments.usage(
                    "missing --target NAME", "one of " + String.join(", ", CheckpointFlags.LAYOUTS.keySet()));
        }
        Layout first = CheckpointFlags.LAYOUTS.values().iterator().next();
        Layout layout = arguments.choice(TARGET, CheckpointFlags.LAYOUTS, first);
        Optional<Recipe> recipe = arguments.text(RECIPE).isEmpty()
                ? Optional.empty()
                : Optional.of(arguments.choice(
                        RECIPE,
                        CheckpointFlags.RECIPES,
                        CheckpointFlags.RECIPES.values().iterator().next()));
        Goal goal = new Goal.Convert(layout, CheckpointFlags.layoutOptions(arguments, false), recipe);
        CheckpointConverter.Request request =
                CheckpointFlags.request(arguments, Map.of(), QuantizeCheckpoint.KEEP_SCALES);
        try (CheckpointConverter converter = CheckpointConverter.open(arguments.operand(0));
                Progress progress = arguments.progress(screen)) {
            RunOptions options = CheckpointFlags.runOptions(arguments, "converting", progress);
            CheckpointPlan plan = converter.plan(goal, request, options);
            CheckpointResult result =
                    arguments.has(Flags.DRY_RUN) ? null : converter.run(goal, request, plan, output, options);
            progress.end();
            CheckpointAnswer.of(
                            converter,
                            plan,
                            output.toString(),
                            recipe.map(Recipe::name).orElse(null),
                            layout.name(),
                            result,
                            List.of())
                    .print(arguments, screen);
        }
        return ExitCode.OK;
    }
}
