package dev.octet.converter.hf;

import dev.octet.formats.graph.Graph;
import dev.octet.formats.tensor.Shape;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The graph of a configuration before there are tensors: its constants have names and no elements.
 *
 * @param graph as {@link HfImporter#of} makes it
 * @param parameters shapes of the constants that are tensors of the checkpoint, by the graph's name, in the order of the graph
 * @param wholes tensors that files or programs have in place of some parameters, which are parts of them; by the tensor's name
 * @param modelType {@code model_type}
 * @param modelClass class of transformers
 * @param prefix that files of this class leave out of the names, with its dot; empty where they do not
 * @param unseen keys of the configuration that no graph shows
 * @param absent parameters that checkpoints of this class may have and that this graph does not compute with
 */
public record Blueprint(
        Graph graph,
        Map<String, Shape> parameters,
        Map<String, Whole> wholes,
        String modelType,
        String modelClass,
        String prefix,
        List<String> unseen,
        List<String> absent) {
    public Blueprint {
        absent = List.copyOf(absent);
        wholes = Collections.unmodifiableMap(new LinkedHashMap<>(wholes));
        parameters = Collections.unmodifiableMap(new LinkedHashMap<>(parameters));
        unseen = List.copyOf(unseen);
    }

    /**
     * A tensor of the weights of all experts.
     *
     * @param parts parameters, one behind another
     * @param inFiles whether files have it, and not its parts
     */
    public record Whole(Shape shape, List<String> parts, boolean inFiles) {
        public Whole {
            parts = List.copyOf(parts);
        }
    }

    /** What a parameter is called in files that transformers writes of this class. */
    public String fileName(String parameter) {
        return parameter.startsWith(prefix) ? parameter.substring(prefix.length()) : parameter;
    }
}
