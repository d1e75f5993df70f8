package dev.octet.converter.pass;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.graph.GraphCheck;
import dev.octet.formats.graph.GraphModel;

/**
 * Refuses models that {@link GraphCheck} has findings about, and puts the nodes of all graphs into an order in which each follows
 * what it reads. The other passes rely on both.
 */
public final class GraphOrder implements Pass {
    @Override
    public String name() {
        return "graph-order";
    }

    /** @throws MalformedModelException when a value is made twice or never, or depends on itself; all rules: {@link GraphCheck} */
    @Override
    public GraphModel apply(GraphModel model, PassLog log) {
        GraphCheck.require(model);
        return GraphCheck.sorted(model);
    }
}
