package dev.octet.converter.trained;

import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.Arena;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;

/**
 * The weights of a canonical graph in checkpoint form: Linear matrices as [out, in], which loaders of checkpoints expect, in either
 * orientation of the graph.
 */
public final class CheckpointTensors {
    private CheckpointTensors() {}

    /**
     * Takes the weights out of a graph.
     *
     * @param names which constants, in any order
     * @param arena owns the matrices that were transposed; others are views
     * @return by name, in the graph's order
     */
    public static Map<String, Tensor> of(GraphModel canonical, Set<String> names, Arena arena) {
        Set<String> transposed = transposed(canonical.graph());
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        for (Map.Entry<String, Initializer> e : canonical.graph().initializers().entrySet()) {
            if (names.contains(e.getKey())) {
                e.getValue()
                        .tensor()
                        .filter(t -> TrainedWeights.isFloat(t.dtype()))
                        .ifPresent(t -> tensors.put(
                                e.getKey(),
                                transposed.contains(e.getKey()) ? t.transposed(arena) : t.withName(e.getKey())));
            }
        }
        return tensors;
    }

    /** Names of the weights of Linears, and all other float constants of a model that look like parameters. */
    public static Set<String> parameters(GraphModel canonical, Set<String> trained) {
        Set<String> names = new HashSet<>(trained);
        for (Node n : canonical.graph().nodes()) {
            if (n.isOctet("Linear")) {
                names.add(n.input(1));
                names.add(n.input(2));
            }
        }
        canonical.graph().initializers().keySet().stream()
                .filter(name -> name.endsWith(".weight") || name.endsWith(".bias"))
                .forEach(names::add);
        return names;
    }

    /** Matrices that Linears read as [in, out] and nothing else reads: a table that is also gathered from stays. */
    private static Set<String> transposed(Graph graph) {
        Set<String> transposed = new HashSet<>();
        Set<String> readOtherwise = new HashSet<>();
        for (Node n : graph.nodes()) {
            boolean linear = n.isOctet("Linear");
            if (linear && n.intAttribute("transB", 0) == 0) {
                transposed.add(n.input(1));
            }
            for (int i = 0; i < n.inputs().size(); i++) {
                if (!linear || i != 1 || n.intAttribute("transB", 0) == 1) {
                    readOtherwise.add(n.input(i));
                }
            }
        }
        transposed.removeAll(readOtherwise);
        return transposed;
    }
}
