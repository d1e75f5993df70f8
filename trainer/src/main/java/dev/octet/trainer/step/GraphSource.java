package dev.octet.trainer.step;

import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.autodiff.Programs;
import dev.octet.trainer.autodiff.Ties;
import java.util.List;
import java.util.Map;
import java.util.function.BiFunction;

/**
 * A model that programs are made of.
 *
 * @param graph canonical, with symbols for open sizes
 * @param at a graph for one size of everything, from it and the number of each symbol; whoever imports models gives it
 */
public record GraphSource(GraphModel graph, BiFunction<GraphModel, Map<String, Long>, GraphModel> at) {
    /** A model without open sizes. */
    public static GraphSource fixed(GraphModel graph) {
        return new GraphSource(graph, (g, sizes) -> g);
    }

    /** The model with parameters that the export wrote twice as one. */
    public GraphSource withTies(List<Ties.Tie> ties) {
        return new GraphSource(Ties.restore(graph, ties), at);
    }

    /**
     * The graph for inputs of these shapes; shapes of other names are passed over.
     *
     * @throws dev.octet.formats.error.InvalidDataException when the shapes contradict the graph or each other
     */
    public GraphModel at(Map<String, Shape> shapes) {
        return at.apply(graph, Programs.sizes(graph.graph(), shapes));
    }
}
