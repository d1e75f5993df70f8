package dev.octet.formats.graph;

import java.util.Set;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * A graph with its enclosing graphs, whose values are visible in it. Walks over nested graphs keep scopes in a list instead of recursing,
 * so the depth of nesting is not limited.
 */
final class Scope {
    private final Graph graph;
    private final @Nullable Scope outer;
    private final Set<String> definitions;

    Scope(Graph graph, @Nullable Scope outer) {
        this.graph = graph;
        this.outer = outer;
        this.definitions = graph.definitions();
    }

    Graph graph() {
        return graph;
    }

    /** Whether {@code name} is a value of this graph or an enclosing one. */
    boolean defines(String name) {
        for (Scope s = this; s != null; s = s.outer) {
            if (s.definitions.contains(name)) {
                return true;
            }
        }
        return false;
    }

    /** Names that this graph reads or outputs, without nested graphs. */
    Stream<String> uses() {
        return Stream.concat(
                        graph.nodes().stream().flatMap(n -> n.inputs().stream()),
                        graph.outputs().stream().map(ValueInfo::name))
                .filter(s -> !s.isEmpty());
    }

    /** The scopes of all graphs nested directly in this graph. */
    void inner(Consumer<Scope> each) {
        for (Node n : graph.nodes()) {
            n.subgraphs().forEach(g -> each.accept(new Scope(g, this)));
        }
    }
}
