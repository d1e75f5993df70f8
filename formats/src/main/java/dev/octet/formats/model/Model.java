package dev.octet.formats.model;

import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.tensor.Tensor;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Optional;

/**
 * Tensors (views) by name, the graph if the format has one, and free text metadata.
 *
 * @param tensors in file order; for a graph, its dense initializers
 */
public record Model(Map<String, Tensor> tensors, Optional<GraphModel> graph, Map<String, String> metadata) {
    public Model {
        tensors = Collections.unmodifiableMap(new LinkedHashMap<>(tensors));
        metadata = Collections.unmodifiableMap(new LinkedHashMap<>(metadata));
    }

    /**
     * The tensor of this name.
     *
     * @throws NoSuchElementException when there is none
     */
    public Tensor tensor(String name) {
        Tensor tensor = tensors.get(name);
        if (tensor == null) {
            throw new NoSuchElementException("there is no tensor '" + name + "'");
        }
        return tensor;
    }

    /** A model of a graph: its tensors are the graph's dense initializers. */
    public static Model of(GraphModel graph) {
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        graph.graph().initializers().forEach((name, i) -> i.tensor().ifPresent(t -> tensors.put(name, t)));
        return new Model(tensors, Optional.of(graph), graph.metadata());
    }

    /** A model without a graph. */
    public static Model of(Map<String, Tensor> tensors, Map<String, String> metadata) {
        return new Model(tensors, Optional.empty(), metadata);
    }
}
