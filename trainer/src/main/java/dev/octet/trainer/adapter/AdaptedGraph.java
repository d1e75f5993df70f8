package dev.octet.trainer.adapter;

import dev.octet.formats.graph.GraphModel;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;

/**
 * A canonical graph with an adapter in it.
 *
 * @param model the base's graph with the adapter's nodes; the adapter's parameters are constants of it, with the values they start from
 * @param keys names of the trained constants, each with its key in PEFT's {@code adapter_model.safetensors}, in the order of the graph
 */
public record AdaptedGraph(GraphModel model, Map<String, String> keys) {
    public AdaptedGraph {
        keys = Collections.unmodifiableMap(new LinkedHashMap<>(keys));
    }

    /** Names of the constants that are trained; all others are frozen. */
    public Set<String> trained() {
        return keys.keySet();
    }
}
