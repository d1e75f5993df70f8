package dev.octet.trainer.autodiff;

import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.TensorSpec;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/** Which constants of a graph can stay in the bytes they are stored in: frozen matrices that Linears multiply with and tables whose rows are looked up. */
public final class StoredWeights {
    private StoredWeights() {}

    /**
     * Their names, in the order of the graph's constants. All others are small (norms, biases), or need F32 copies because an operator reads them that
     * takes nothing else.
     *
     * @param trained names of what is trained; these have F32 masters
     */
    public static Set<String> of(Graph graph, Collection<String> trained) {
        Set<String> other = new HashSet<>(trained);
        graph.outputs().forEach(o -> other.add(o.name()));
        for (Node n : graph.nodes()) {
            List<String> inputs = n.inputs();
            for (int i = 0; i < inputs.size(); i++) {
                if (!reads(n, i)) {
                    other.add(inputs.get(i));
                }
            }
            n.uses().stream().filter(u -> !inputs.contains(u)).forEach(other::add); // by a subgraph
        }
        Set<String> stored = new LinkedHashSet<>();
        for (Initializer constant : graph.initializers().values()) {
            if (!other.contains(constant.name())
                    && constant.spec().filter(StoredWeights::isMatrix).isPresent()) {
                stored.add(constant.name());
            }
        }
        return stored;
    }

    private static boolean isMatrix(TensorSpec spec) {
        boolean floats = spec.dtype() == DType.F32 || spec.dtype() == DType.BF16 || spec.dtype() == DType.F16;
        return floats && spec.shape().rank() == 2 && spec.shape().elementCount() > 0;
    }

    /** Whether a node takes its input {@code i} as it is stored. */
    static boolean reads(Node node, int i) {
        return isLinear(node, i) || isRows(node, i);
    }

    private static boolean isLinear(Node node, int i) {
        return node.isOctet("Linear") && (i == 1 || MergedNodes.isSibling(node, i));
    }

    /** The same of a table, rows of which are looked up. */
    private static boolean isRows(Node node, int i) {
        return node.is("Gather") && i == 0 && node.intAttribute("axis", 0) == 0;
    }
}
