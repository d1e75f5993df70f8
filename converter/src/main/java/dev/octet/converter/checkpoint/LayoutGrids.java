package dev.octet.converter.checkpoint;

import dev.octet.formats.tensor.Shape;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.LayoutOptions;
import dev.octet.quant.layout.ScaleTensor;
import dev.octet.quant.merge.WeightGrid;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.Recipe;
import java.util.Optional;

/** The numbers that a weight can be once it lies in a layout. */
public final class LayoutGrids {
    private LayoutGrids() {}

    /**
     * The grid of a weight that is to be quantised.
     *
     * @param name own name of the weight
     * @return empty where the layout cannot hold the weight so
     */
    public static Optional<WeightGrid> of(
            Layout layout, Recipe recipe, LayoutOptions options, String name, Shape shape) {
        Optional<OperandSpec> scheme = layout.scheme(recipe, options);
        if (scheme.isEmpty() || layout.refusal(scheme.get(), shape).isPresent()) {
            return Optional.empty();
        }
        ScaleTensor global = layout.place(name, shape, scheme.get(), options).globalScale();
        return Optional.of(new WeightGrid(scheme.get(), global == null ? null : ScaleForms.direction(global)));
    }
}
