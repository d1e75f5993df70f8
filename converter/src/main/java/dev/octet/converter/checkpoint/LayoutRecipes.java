package dev.octet.converter.checkpoint;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.tensor.Shape;
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

/** Which recipes a layout has a way to say. */
final class LayoutRecipes {
    private LayoutRecipes() {}

    /**
     * How a recipe's weights lie in a layout.
     *
     * @throws InvalidOptionException when the layout cannot say it; names what it takes, and which layouts can
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

    /** Names of the recipes that a layout takes. */
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
     * Recipes that say in {@code layout} what the codes of a weight are. First those that cut every weight as this one is cut, then those
     * that cut one of this shape alike: a weight of one block has one scale, as one that is not cut.
     *
     * @param recipe the only one to look at; empty for all
     */
    static List<Recipe> alike(Optional<Recipe> recipe, Layout layout, LayoutOptions options, StoredWeight weight) {
        MatrixShape m = MatrixShape.of(weight.shape());
        Shape matrix = Shape.of(m.rows(), m.cols());
        QuantType codes =
                weight.codes() == QuantType.E4M3FNUZ ? QuantType.E4M3FN : weight.codes(); // transcoded on the way
        return recipe.map(List::of).orElse(Recipes.CHECKPOINT).stream()
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
