package dev.octet.converter.sensitivity;

import dev.octet.formats.tensor.Shape;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.LayoutOptions;
import dev.octet.quant.layout.Layouts;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * How the forward product of a Linear is quantised while it is measured: a recipe's operands with the scales that checkpoints store.
 *
 * @param name the recipe's own name
 * @param input null when the input is left as it is
 * @param weight of a weight in [out, in] order
 * @param recipe what writes it
 */
public record LinearFormat(String name, @Nullable OperandSpec input, OperandSpec weight, Recipe recipe) {
    /** Every format that can be measured, by name: the recipes of graphs and checkpoints without zero points. */
    public static final Map<String, LinearFormat> ALL = all();

    private static Map<String, LinearFormat> all() {
        Map<String, LinearFormat> formats = new LinkedHashMap<>();
        List<Recipe> recipes = new ArrayList<>(Recipes.GRAPH);
        recipes.addAll(Recipes.CHECKPOINT);
        recipes.stream()
                .filter(r -> !r.weight().type().hasZeroPoint())
                .forEach(r -> formats.putIfAbsent(r.ownName(), of(r)));
        return Collections.unmodifiableMap(formats);
    }

    /** The format of a recipe for graphs or checkpoints. */
    public static LinearFormat of(Recipe recipe) {
        Layout layout = Layouts.named("compressed-tensors").orElseThrow();
        OperandSpec weight = layout.scheme(recipe, LayoutOptions.defaults()).orElseGet(recipe::weight);
        return new LinearFormat(recipe.ownName(), recipe.input(), weight, recipe);
    }

    /** This with the input left as it is: weights alone are quantised. */
    public LinearFormat weightOnly() {
        return new LinearFormat(name, null, weight, recipe);
    }

    /**
     * This as engines compute it from a checkpoint without scales of inputs: they find one at run time, and leave the input of
     * four-bit floats as it is, whose second level must be in the file.
     */
    public LinearFormat withoutStatistics() {
        if (input == null || input.type() == QuantType.E2M1) {
            return weightOnly();
        }
        return input.isDynamic()
                ? this
                : new LinearFormat(
                        name,
                        new OperandSpec(input.type(), input.granularity(), new OperandSpec.Scaling.Dynamic()),
                        weight,
                        recipe);
    }

    /** Why a weight of {@code [out, in]} cannot have this format; empty when it can. */
    public Optional<String> refusal(Shape shape) {
        int group = switch (weight.granularity()) {
            case Granularity.PerGroup(int _, int size) -> size;
            case Granularity.Mx(int _, int size) -> size;
            case Granularity.PerTensor _, Granularity.PerChannel _, Granularity.PerToken _, Granularity.PerBlock _ ->
                inputGroup();
        };
        return shape.dim(-1) % group == 0
                ? Optional.empty()
                : Optional.of(shape.dim(-1) + " inputs are not a multiple of " + group);
    }

    private int inputGroup() {
        return input != null && input.granularity() instanceof Granularity.PerGroup(int _, int size) ? size : 1;
    }

    /** Bits of a weight of {@code [out, in]} with its scales, as they are stored. */
    public long bits(Shape shape) {
        Blocks blocks = Blocks.of(shape, weight.granularity());
        long scales = Math.multiplyExact(
                blocks.scaleCount(), (long) weight.scaleType().bits());
        long second = weight.twoLevels() ? Float.SIZE : 0;
        return Math.addExact(
                Math.multiplyExact(shape.elementCount(), (long) weight.type().bits()), scales + second);
    }
}
