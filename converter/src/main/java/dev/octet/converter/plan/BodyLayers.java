package dev.octet.converter.plan;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * The layers inside bodies of {@code If}, {@code Loop} and {@code Scan}. Bodies pass through as they are, because nothing in them can be
 * calibrated: the values a body computes are not values of the graph around it.
 */
public final class BodyLayers {
    /** Operators that leave a constant a constant of the same rank, as between a weight and its product. */
    private static final Set<String> CARRYING = Set.of("Identity", "Cast", "Transpose");
    /** Of a constant whose rank is not known. */
    private static final int ANY_RANK = -1;

    private final String reason;
    private final List<Decision.Kept> found = new ArrayList<>();

    private BodyLayers(Node owner) {
        reason = "it is in a body of " + owner.opType() + " '" + owner.id() + "', which passes through as it is";
    }

    /** All in a graph's nodes, in their order. */
    public static List<Decision.Kept> of(Graph graph) {
        Map<String, Integer> constants = constants(graph);
        List<Decision.Kept> all = new ArrayList<>();
        graph.nodes().forEach(n -> all.addAll(of(n, constants)));
        return all;
    }

    /**
     * Those inside one node.
     *
     * @param constants of the graph that the node is in, by {@link #constants}
     */
    static List<Decision.Kept> of(Node owner, Map<String, Integer> constants) {
        BodyLayers layers = new BodyLayers(owner);
        layers.bodies(owner, owner.id(), constants);
        return layers.found;
    }

    /** Ranks of a graph's constants by name. */
    static Map<String, Integer> constants(Graph graph) {
        Map<String, Integer> ranks = new HashMap<>();
        graph.initializers().forEach((name, i) -> ranks.put(name, rank(i)));
        graph.nodes().forEach(n -> carry(n, ranks));
        return ranks;
    }

    private static int rank(Initializer i) {
        return i.tensor().map(t -> t.shape().rank()).orElse(ANY_RANK);
    }

    private static void carry(Node n, Map<String, Integer> ranks) {
        Integer rank = null;
        if (n.is("Constant")) {
            rank = n.attribute("value").orElse(null) instanceof Attribute.OfTensor t ? rank(t.value()) : ANY_RANK;
        } else if (n.domain().isEmpty() && CARRYING.contains(n.opType())) {
            rank = ranks.get(n.input(0));
        }
        if (rank != null) {
            ranks.put(n.output(0), rank);
        }
    }

    private void bodies(Node owner, String path, Map<String, Integer> outer) {
        for (Attribute a : owner.attributes().values()) {
            if (a.value() instanceof Attribute.OfGraph body) {
                body(body.value(), path + "/" + a.name(), outer);
            } else if (a.value() instanceof Attribute.OfGraphs list) {
                list.values().forEach(b -> body(b, path + "/" + a.name(), outer));
            }
        }
    }

    private void body(Graph body, String path, Map<String, Integer> outer) {
        Map<String, Integer> constants = new HashMap<>(outer);
        constants.putAll(constants(body));
        for (Node n : body.nodes()) {
            String id = path + "/" + n.id();
            LayerKind kind = kind(n, constants);
            if (kind != null) {
                found.add(new Decision.Kept(id, kind, reason));
            }
            bodies(n, id, constants);
        }
    }

    private static @Nullable LayerKind kind(Node n, Map<String, Integer> constants) {
        if (!n.domain().isEmpty()) {
            return null;
        }
        return switch (n.opType()) {
            case "MatMul", "Gemm" -> {
                Integer rank = constants.get(n.input(1));
                yield rank != null && (rank == 2 || rank == ANY_RANK) && !constants.containsKey(n.input(0))
                        ? LayerKind.LINEAR
                        : null;
            }
            case "LayerNormalization" -> LayerKind.LAYER_NORM;
            case "RMSNormalization" -> LayerKind.RMS_NORM;
            case "Conv", "ConvTranspose" -> LayerKind.CONV;
            default -> null;
        };
    }
}
