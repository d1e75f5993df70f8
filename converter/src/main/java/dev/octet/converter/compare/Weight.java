package dev.octet.converter.compare;

import dev.octet.formats.tensor.Shape;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * One weight of a model, ready to be compared.
 *
 * @param name its own name, not that of its codes
 * @param names alternative names, best first: for a name made up by an exporter, the module that uses the weight
 * @param shape its shape, not that of its codes
 * @param scheme how it is stored, in words: {@code BF16}, {@code E4M3FN per channel, scale BF16}
 * @param grid the numbers it can hold
 * @param elements its values
 * @param scales its scales, null without scales
 * @param inputScale the static scale of the activation it is multiplied with; NaN without one
 */
record Weight(
        String name,
        List<String> names,
        Shape shape,
        String scheme,
        NumberGrid grid,
        Elements elements,
        @Nullable ScaleList scales,
        double inputScale) {
    Weight {
        names = List.copyOf(names);
    }

    /** The same weight, transposed; it must have two axes. */
    Weight transposed() {
        return new Weight(
                name,
                names,
                Shape.of(shape.dim(1), shape.dim(0)),
                scheme + ", transposed",
                grid,
                new TransposedElements(elements),
                null,
                inputScale);
    }
}
