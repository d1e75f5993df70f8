package dev.octet.converter.restore;

import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.util.OptionalInt;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * The window of attention, as exporters write it: positions of keys compared with positions of queries less a number. Read while sizes are
 * symbols: afterwards masks are constants that are too small to show it.
 */
public final class WindowReader {
    private static final Set<String> COMPARISONS = Set.of("Greater", "GreaterOrEqual", "Less", "LessOrEqual");

    private WindowReader() {}

    /** Positions that attention sees; empty where nothing limits it. */
    public static OptionalInt of(GraphModel canonical) {
        FixedGraph graph = FixedGraph.of(canonical.graph());
        for (Node n : graph.nodes()) {
            if (n.domain().isEmpty() && COMPARISONS.contains(n.opType())) {
                for (String operand : n.inputs()) {
                    long distance = distance(graph, graph.maker(operand));
                    if (distance > 1 && distance <= Integer.MAX_VALUE) {
                        return OptionalInt.of((int) distance);
                    }
                }
            }
        }
        return OptionalInt.empty();
    }

    private static long distance(FixedGraph graph, @Nullable Node n) {
        if (n == null || (!n.is("Add") && !n.is("Sub"))) {
            return 0;
        }
        for (String operand : n.inputs()) {
            Tensor t = graph.constant(operand);
            if (t != null && t.dtype() == DType.I64 && t.shape().elementCount() == 1) {
                return Math.abs(t.toLongs()[0]);
            }
        }
        return 0;
    }
}
