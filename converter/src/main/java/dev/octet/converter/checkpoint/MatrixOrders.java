package dev.octet.converter.checkpoint;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Shape;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * Decides which matrices of a checkpoint a graph holds transposed. Shapes decide it for all but square matrices. For a square matrix, the
 * graph's product shows the graph's order; the checkpoint's order is inferred, in this sequence, from
 *
 * <ol>
 *   <li>the layout: quantised weights are [out, in] in all layouts;
 *   <li>its non-square matrices whose modules have the same last name, if they agree;
 *   <li>all its non-square Linears, if they agree;
 *   <li>the architecture named by its configuration.
 * </ol>
 */
final class MatrixOrders {
    /** Order of the axes of a matrix. */
    private enum Order {
        IN_OUT,
        OUT_IN;

        Order other() {
            return this == IN_OUT ? OUT_IN : IN_OUT;
        }
    }

    private final Map<String, Order> inGraph;
    private final Set<String> quantized;
    private final @Nullable ObjectNode config;

    /** The checkpoint's order of its non-square matrices. */
    private final Map<String, Order> seen = new HashMap<>();

    /**
     * @param quantized weights that are quantised in the checkpoint
     * @param config the checkpoint's, null without one
     */
    MatrixOrders(Graph graph, Set<String> quantized, @Nullable ObjectNode config) {
        this.inGraph = orders(graph);
        this.quantized = quantized;
        this.config = config;
    }

    /** Records a matrix that is in both. */
    void see(String name, Shape inCheckpoint, Shape inModel) {
        Order held = inGraph.get(name);
        if (held == null || inCheckpoint.rank() != 2 || inCheckpoint.dim(0) == inCheckpoint.dim(1)) {
            return;
        }
        if (LinearNames.role(name, inCheckpoint) == TensorRole.LINEAR) {
            seen.put(name, inCheckpoint.equals(inModel) ? held : held.other());
        }
    }

    /**
     * Whether the graph holds a square matrix transposed; false for a matrix that no product reads.
     *
     * @throws UnsupportedModelException when the checkpoint's order is unknown
     */
    boolean isTurned(String name, Shape square) {
        Order held = inGraph.get(name);
        if (held == null) {
            return false;
        }
        Order inCheckpoint = inCheckpoint(name)
                .orElseThrow(() -> new UnsupportedModelException(
                        "Octet cannot determine whether the checkpoint holds a square matrix as [out, in] or as [in,"
                                + " out]",
                        "weight '" + name + "' " + square,
                        "put the config.json of the model next to the checkpoint"));
        return inCheckpoint != held;
    }

    private Optional<Order> inCheckpoint(String name) {
        if (quantized.contains(name)) {
            return Optional.of(Order.OUT_IN); // case 1
        }
        String last = LinearNames.lastName(name);
        return agreed(other -> LinearNames.lastName(other).equals(last)) // case 2
                .or(() -> agreed(_ -> true)) // case 3
                .or(() -> ofArchitecture(name)); // case 4
    }

    private Optional<Order> agreed(Predicate<String> among) {
        Set<Order> orders = EnumSet.noneOf(Order.class);
        seen.forEach((name, order) -> {
            if (among.test(name)) {
                orders.add(order);
            }
        });
        return orders.size() == 1 ? orders.stream().findFirst() : Optional.empty();
    }

    private Optional<Order> ofArchitecture(String name) {
        String type = config == null ? "" : config.path("model_type").asText("");
        if (type.isEmpty()) {
            return Optional.empty();
        }
        return Optional.of(LinearNames.isConv1d(type, name) ? Order.IN_OUT : Order.OUT_IN);
    }

    /** The order in which products read their constants, without constants that are read in both orders. */
    private static Map<String, Order> orders(Graph graph) {
        Map<String, Node> producers = new HashMap<>();
        graph.nodes().forEach(n -> n.outputs().forEach(o -> producers.put(o, n)));
        Map<String, Order> orders = new HashMap<>();
        Set<String> bothWays = new HashSet<>();
        for (Node n : graph.nodes()) {
            if (!n.is("MatMul") && !n.is("Gemm") && !n.isOctet("Linear")) {
                continue;
            }
            Order order = n.intAttribute("transB", 0) == 0 ? Order.IN_OUT : Order.OUT_IN;
            String name = n.input(1);
            for (Node p = producers.get(name); p != null; p = producers.get(name)) {
                if (!p.is("Transpose") && !p.is("Cast") && !p.is("Identity")) {
                    break;
                }
                boolean turns = p.is("Transpose")
                        && !p.intsAttribute("perm").orElse(List.of()).equals(List.of(0L, 1L));
                order = turns ? order.other() : order;
                name = p.input(0);
            }
            Order before = orders.put(name, order);
            if (before != null && before != order) {
                bothWays.add(name);
            }
        }
        orders.keySet().removeAll(bothWays);
        return orders;
    }
}
