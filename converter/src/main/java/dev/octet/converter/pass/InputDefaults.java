package dev.octet.converter.pass;

import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;

/**
 * Takes initializers off the list of graph inputs. IR 3 had to list every weight there, and some exporters still do; since IR
 * 4 it means a default that the caller may replace, so no runtime and no pass could rely on the weight. After this pass
 * initializers are constants.
 */
public final class InputDefaults implements Pass {
    @Override
    public String name() {
        return "input-defaults";
    }

    @Override
    public GraphModel apply(GraphModel model, PassLog log) {
        Graph g = model.graph();
        int defaults = g.inputs().size() - g.requiredInputs().size();
        if (defaults == 0) {
            return model;
        }
        log.note(name(), "", defaults + " weights were also inputs of the graph; they are constants now");
        return model.withGraph(new Graph(
                g.name(),
                g.nodes(),
                g.initializers(),
                g.requiredInputs(),
                g.outputs(),
                g.valueInfos(),
                g.doc(),
                g.metadata(),
                g.unknown()));
    }
}
