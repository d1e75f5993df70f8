package dev.octet.cli;

import dev.octet.converter.checkpoint.Selection;
import dev.octet.converter.verify.Consumer;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.FloatName;
import dev.octet.pipeline.Serving;
import dev.octet.pipeline.Target;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.layout.LayoutOptions;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import org.apache.commons.cli.Option;

/** Options of the verbs that work on checkpoints of tensors, spelled once. */
final class CheckpointFlags {
    static final Map<String, Recipe> RECIPES = Recipes.byName(Recipes.CHECKPOINT);
    static final Map<String, Target.Checkpoint> TARGETS = Flags.byName(Target.CHECKPOINTS, Target::label);

    private static final Map<String, Boolean> SCALE_FORMATS = Map.of("fp32", false, "ue8m0", true);

    static final Option KEEP =
            Flags.repeatable("keep", "REGEX", "leave weights as they are whose name contains a match");
    static final Option ONLY =
            Flags.repeatable("only", "REGEX", "checkpoints: leave weights as they are whose name contains no match");
    static final Option INCLUDE = Flags.repeatable(
            "include", "REGEX", "checkpoints: also quantise heads, routers or embeddings whose name contains a match");
    static final Option SCALE_FORMAT = Flags.value(
            "scale-format",
            "fp32|ue8m0",
            "checkpoints, recipe fp8-block: scales are any number or powers of two (default: fp32)");
    static final Option SCALE_TYPE = Flags.value(
            "scale-type",
            "fp32|bf16|fp16",
            "checkpoints: number type of stored float scales (default: the model's for compressed-tensors, else fp32)");
    static final Option GROUP_SIZE = Flags.value(
            "group-size",
            "32|64|128|channel",
            "checkpoints, recipes int4 and int4-asymmetric: inputs of an output that share a scale (default: 128)");
    static final Option ALLOW_NONFINITE = Flags.flag(
            "allow-nonfinite",
            "checkpoints: weights with NaN or infinity stay as they are (default: refuse the model)");
    static final Option EXACT_ONLY =
            Flags.flag("exact-only", "refuse whatever would change a value (default: allow rounding)");

    private CheckpointFlags() {}

    /**
     * Refuses a program that loads checkpoints as the target of a verb other than quantize: there the recipe, by which the layout is chosen,
     * is not on the command line.
     */
    static void refuseConsumer(Arguments arguments, Option target) {
        Optional<String> name = arguments.text(target);
        Consumer consumer =
                name.flatMap(n -> Optional.ofNullable(Serving.CONSUMERS.get(n))).orElse(null);
        if (consumer != null) {
            throw arguments.usage(
                    "'" + name.get() + "' is a target of quantize only, which chooses the layout by the recipe",
                    consumer.text() + " loads " + String.join(", ", Serving.layouts(consumer)));
        }
    }

    static Selection selection(Arguments arguments) {
        return new Selection(
                patterns(arguments, KEEP), patterns(arguments, ONLY), patterns(arguments, INCLUDE), Map.of());
    }

    /** Regular expressions of a repeatable option. */
    static List<Pattern> patterns(Arguments arguments, Option option) {
        List<Pattern> patterns = new ArrayList<>();
        for (String text : arguments.texts(option)) {
            try {
                patterns.add(Pattern.compile(text));
            } catch (PatternSyntaxException e) {
                throw new InvalidOptionException(
                        "--" + option.getLongOpt() + " '" + text + "' is not a regular expression: "
                                + e.getDescription(),
                        "character " + e.getIndex(),
                        "escape special characters with \\",
                        e);
            }
        }
        return patterns;
    }

    private static final Map<String, Granularity> GROUPS = Map.of(
            "32", new Granularity.PerGroup(-1, 32),
            "64", new Granularity.PerGroup(-1, 64),
            "128", new Granularity.PerGroup(-1, Recipe.INT4_GROUP),
            "channel", new Granularity.PerChannel(-2));

    /** The recipe with the groups that were asked for. */
    static Recipe grouped(Arguments arguments, Recipe recipe) {
        if (!arguments.has(GROUP_SIZE)) {
            return recipe;
        }
        Granularity groups =
                arguments.choice(GROUP_SIZE, GROUPS, recipe.weight().granularity());
        if (!recipe.isGrouped()) {
            throw arguments.usage(
                    "--group-size is for recipes int4 and int4-asymmetric: " + recipe.name() + " has "
                            + recipe.weight().granularity().text() + " scales",
                    "leave it out, or give one of these recipes");
        }
        return recipe.withGroups(groups);
    }

    static LayoutOptions layoutOptions(Arguments arguments) {
        return new LayoutOptions(
                arguments.has(SCALE_TYPE) ? arguments.choice(SCALE_TYPE, FloatName.types(), DType.F32) : null,
                arguments.choice(SCALE_FORMAT, SCALE_FORMATS, false),
                false);
    }
}
