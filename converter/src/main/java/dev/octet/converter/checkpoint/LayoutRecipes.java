package dev.octet.converter.checkpoint;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.LayoutOptions;
import dev.octet.quant.layout.Layouts;
import dev.octet.quant.layout.StoredWeight;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;

/** The recipes that a layout can express. */
final class LayoutRecipes {
    private LayoutRecipes() {}

    /**
     * The scheme of a recipe's weights in a layout.
     *
     * @throws InvalidOptionException when the layout cannot express the recipe; names the recipes it can, and the layouts that can
     */
    static OperandSpec scheme(Layout layout, Recipe recipe, LayoutOptions options) {
        return layout.scheme(recipe, options)
                .orElseThrow(() -> new InvalidOptionException(
                        layout.unsupported(recipe, options)
                                .orElse("layout " + layout.name() + " has no way to say recipe " + recipe.name()),
                        "--recipe " + recipe.name() + " --target " + layout.name(),
                        "it takes " + String.join(", ", recipesOf(layout, options)) + "; or choose one of the targets "
                                + String.join(", ", layoutsOf(recipe, options))));
    }

    /** Names of the recipes that a layout can express. */
    static List<String> recipesOf(Layout layout, LayoutOptions options) {
        return Recipes.CHECKPOINT.stream()
                .filter(r -> layout.scheme(r, options).isPresent())
                .map(Recipe::name)
                .toList();
    }

    private static List<String> layoutsOf(Recipe recipe, LayoutOptions options) {
        return Layouts.ALL.stream()
                .filter(l -> l.scheme(recipe, options).isPresent())
                .map(Layout::name)
                .toList();
    }

    /** Names of all layouts but one. */
    static List<String> otherThan(Layout layout) {
        return Layouts.ALL.stream()
                .map(Layout::name)
                .filter(n -> !n.equals(layout.name()))
                .toList();
    }

    /**
     * Recipes of {@code layout} that describe the codes of a weight. Recipes with the weight's granularity come first, then those that cut
     * this shape into the same blocks: a weight of a single block has one scale, like a per-tensor weight.
     *
     * @param recipe the only recipe to consider; empty for all
     */
    static List<Recipe> alike(Optional<Recipe> recipe, Layout layout, LayoutOptions options, StoredWeight weight) {
        Shape matrix = Shape.of(Blocks.rows(weight.shape()), Blocks.cols(weight.shape()));
        QuantType codes =
                weight.codes() == QuantType.E4M3FNUZ ? QuantType.E4M3FN : weight.codes(); // the run transcodes it
        return recipe.map(List::of).orElse(Recipes.CHECKPOINT).stream()
                .map(r -> recipe.isPresent() ? r : r.withGroups(weight.granularity()))
                .filter(r -> layout.scheme(r, options)
                        .filter(s -> s.type() == codes
                                && s.twoLevels() == (weight.globalScale() != null)
                                && ExactnessCheck.same(s.granularity(), weight.granularity(), matrix)
                                && layout.refusal(s, weight.shape()).isEmpty())
                        .isPresent())
                .sorted(Comparator.comparing(r -> !r.weight().granularity().equals(weight.granularity())))
                .toList();
    }
}
