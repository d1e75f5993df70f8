package dev.octet.converter.restore;

import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.util.OptionalInt;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Finds the attention window in exports: a comparison of key positions with query positions minus a number. Reads it while sizes are
 * symbols; with fixed sizes, masks are constants that are too small to show the window.
 */
public final class WindowReader {
    private static final Set<String> COMPARISONS = Set.of("Greater", "GreaterOrEqual", "Less", "LessOrEqual");

    private WindowReader() {}

    /** Number of positions in the attention window; empty without a limit. */
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
