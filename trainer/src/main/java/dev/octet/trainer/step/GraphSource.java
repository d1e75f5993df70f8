package dev.octet.trainer.step;

import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.adapter.AdaptedGraph;
import dev.octet.trainer.autodiff.Programs;
import dev.octet.trainer.autodiff.Ties;
import java.util.List;
import java.util.Map;
import java.util.function.BiFunction;

/**
 * A model from which programs are built.
 *
 * @param graph canonical, with symbols for open dimensions
 * @param at from {@code graph} and a size for each symbol to the graph with concrete shapes; the model importer provides it
 * @param virtualTokens rows that an adapter puts in front of each sample's tokens, in outputs too
 */
public record GraphSource(
        GraphModel graph, BiFunction<GraphModel, Map<String, Long>, GraphModel> at, int virtualTokens) {
    /** A model without virtual tokens. */
    public GraphSource(GraphModel graph, BiFunction<GraphModel, Map<String, Long>, GraphModel> at) {
        this(graph, at, 0);
    }

    /** A model without open dimensions. */
    public static GraphSource fixed(GraphModel graph) {
        return new GraphSource(graph, (g, sizes) -> g);
    }

    /** The model with these ties restored: each pair becomes one parameter. */
    public GraphSource withTies(List<Ties.Tie> ties) {
        return new GraphSource(Ties.restore(graph, ties), at, virtualTokens);
    }

    /** The model with another graph: one with the same inputs. */
    public GraphSource with(GraphModel other) {
        return new GraphSource(other, at, virtualTokens);
    }

    /** The model with an adapter in it. */
    public GraphSource withAdapter(AdaptedGraph adapted) {
        return new GraphSource(adapted.model(), at, adapted.virtualTokens());
    }

    /**
     * The graph at the shapes of its inputs; entries with other names are ignored.
     *
     * @throws dev.octet.formats.error.InvalidDataException when the shapes contradict the graph or each other
     */
    public GraphModel at(Map<String, Shape> shapes) {
        return at.apply(graph, Programs.sizes(graph.graph(), shapes));
    }
}
