package dev.octet.trainer.step;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.Shape;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;

/**
 * A model that programs are made of.
 *
 * @param graph canonical, with symbols for open sizes
 * @param at the graph for one size of everything, from the number of each symbol; whoever imports models gives it
 */
public record GraphSource(GraphModel graph, Function<Map<String, Long>, GraphModel> at) {
    /** A model without open sizes. */
    public static GraphSource fixed(GraphModel graph) {
        return new GraphSource(graph, sizes -> graph);
    }

    /**
     * The graph for inputs of these shapes; shapes of other names are passed over.
     *
     * @throws InvalidDataException when the shapes contradict the graph or each other
     */
    public GraphModel at(Map<String, Shape> shapes) {
        Map<String, Long> sizes = new TreeMap<>();
        for (ValueInfo input : graph.graph().requiredInputs()) {
            Shape shape = shapes.get(input.name());
            if (shape == null) {
                throw new InvalidDataException(
                        "there is nothing to feed input '" + input.name() + "'",
                        "data with " + shapes.keySet(),
                        "add an array of this name to the data");
            }
            if (input.type() instanceof TensorType t && t.dims() != null) {
                bind(input, t, shape, sizes);
            }
        }
        return at.apply(sizes);
    }

    private static void bind(ValueInfo input, TensorType type, Shape shape, Map<String, Long> sizes) {
        if (type.dims() == null || type.dims().size() != shape.rank()) {
            throw unfit(input, shape, "give it the model's rank, samples first");
        }
        for (int i = 0; i < shape.rank(); i++) {
            Dim dim = type.dims().get(i);
            if (dim.size() != null && dim.size() != shape.dim(i)) {
                throw unfit(
                        input,
                        shape,
                        i == 0
                                ? "the model was exported for batches of " + dim.size() + ": set batch_size to it"
                                : "axis " + i + " must be " + dim.size());
            }
            Long before = dim.symbol() == null ? null : sizes.put(dim.symbol(), shape.dim(i));
            if (before != null && before != shape.dim(i)) {
                throw unfit(input, shape, "'" + dim.symbol() + "' is " + before + " in another input: make them equal");
            }
        }
    }

    private static InvalidDataException unfit(ValueInfo input, Shape shape, String fix) {
        return new InvalidDataException(
                "the data for input '" + input.name() + "' is " + shape + ", the model wants " + input.type(),
                "data for '" + input.name() + "'",
                fix);
    }
}
