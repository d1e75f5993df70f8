package dev.octet.trainer.step;

import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.autodiff.Programs;
import java.util.Map;
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
     * @throws dev.octet.formats.error.InvalidDataException when the shapes contradict the graph or each other
     */
    public GraphModel at(Map<String, Shape> shapes) {
        return at.apply(Programs.sizes(graph.graph(), shapes));
    }
}
