package dev.octet.converter.restore;

import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Two decoders in one file, as optimum merges them: an {@code If} with the condition {@code use_cache_branch}, one branch with a cache of keys and values and one
 * without. Weights lie outside, small constants in each branch.
 */
public final class MergedDecoder {
    /** The condition, an input. */
    static final String CONDITION = "use_cache_branch";

    private MergedDecoder() {}

    /**
     * The decoder without a cache in place of both; any other model as it is.
     *
     * @param where the file, for messages
     * @throws UnsupportedModelException when the condition chooses something else, or names of the branch are taken outside
     */
    public static GraphModel withoutCache(GraphModel model, String where) {
        Graph graph = model.graph();
        if (graph.inputs().stream().noneMatch(i -> i.name().equals(CONDITION))) {
            return model;
        }
        List<Node> readers =
                graph.nodes().stream().filter(n -> n.uses().contains(CONDITION)).toList();
        Node choice = readers.size() == 1 ? readers.getFirst() : null;
        if (choice == null
                || !choice.is("If")
                || !(choice.attribute("else_branch").orElse(null) instanceof Attribute.OfGraph(Graph branch))) {
            throw refused("the input " + CONDITION + " is not the condition of one If", where);
        }
        List<Node> nodes = new ArrayList<>();
        for (Node n : graph.nodes()) {
            if (n.equals(choice)) {
                nodes.addAll(branch.nodes());
                nodes.addAll(named(choice, branch));
            } else {
                nodes.add(n);
            }
        }
        Map<String, Initializer> initializers = new LinkedHashMap<>(graph.initializers());
        for (Initializer i : branch.initializers().values()) {
            if (initializers.putIfAbsent(i.name(), i) != null) {
                throw refused("'" + i.name() + "' is defined inside and outside of " + choice.id(), where);
            }
        }
        Map<String, ValueInfo> types = new LinkedHashMap<>(branch.valueInfos());
        types.putAll(graph.valueInfos());
        return model.withGraph(new Graph(
                graph.name(),
                nodes,
                initializers,
                graph.inputs().stream().filter(i -> !i.name().equals(CONDITION)).toList(),
                graph.outputs(),
                types,
                graph.doc(),
                graph.metadata(),
                graph.unknown()));
    }

    /** What gives the branch's outputs the names that they have outside. */
    private static List<Node> named(Node choice, Graph branch) {
        List<Node> nodes = new ArrayList<>();
        for (int i = 0; i < choice.outputs().size(); i++) {
            String inside = branch.outputs().get(i).name();
            String outside = choice.output(i);
            if (!inside.equals(outside)) {
                nodes.add(Node.of(outside, "Identity", List.of(inside), List.of(outside)));
            }
        }
        return nodes;
    }

    private static UnsupportedModelException refused(String what, String where) {
        return new UnsupportedModelException(
                what, where, "give a file of one decoder: optimum calls it model.onnx or decoder_model.onnx");
    }
}
