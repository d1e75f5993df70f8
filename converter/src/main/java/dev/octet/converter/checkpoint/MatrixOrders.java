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
 * Which matrices of a checkpoint a graph holds the other way round. Shapes say it, but not of square ones. For those it is known how the graph
 * multiplies with them; how the checkpoint holds them is inferred, in this order, from
 *
 * <ol>
 *   <li>its layout: quantised weights are [out, in] in all of them;
 *   <li>its matrices that are not square and whose modules have the same last name, when they agree;
 *   <li>all its Linears that are not square, when they agree;
 *   <li>the architecture that its configuration names.
 * </ol>
 */
final class MatrixOrders {
    /** Axes of a matrix that vectors are multiplied with. */
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

    /** Of the matrices that are not square: how the checkpoint holds them. */
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

    /** Takes note of a matrix that is in both. */
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
     * Whether the graph holds a square matrix the other way round. One that no product reads is as it is.
     *
     * @throws UnsupportedModelException when nothing says it
     */
    boolean isTurned(String name, Shape square) {
        Order held = inGraph.get(name);
        if (held == null) {
            return false;
        }
        Order inCheckpoint = inCheckpoint(name)
                .orElseThrow(() -> new UnsupportedModelException(
                        "nothing tells whether the checkpoint holds a square matrix as [out, in] or as [in, out]",
                        "weight '" + name + "' " + square,
                        "put the config.json of the model beside the checkpoint"));
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

    /** How products read their constants; not of those that are read in both ways. */
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
