package dev.octet.converter.pass;

import dev.octet.converter.infer.Analysis;
import dev.octet.converter.infer.KnownValue;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import java.util.ArrayList;
import java.util.List;

/**
 * Replaces nodes whose outputs are wholly known before anything runs by constants of the same names: shape arithmetic, masks
 * and positions made of constants and of known dimensions.
 *
 * <p>Weights are never folded: they stay constants that training may change, so {@code Transpose(weight)} remains a node.
 * Nothing above {@link KnownValue#MAX_ELEMENTS} elements is folded. Nodes with subgraphs are left alone, and a node that makes
 * an output of the graph stays. Float results are the bits a runtime would compute: only operations that IEEE 754 rounds
 * exactly are done here.
 */
public final class ConstantFolding implements Pass {
    @Override
    public String name() {
        return "constant-folding";
    }

    @Override
    public GraphModel apply(GraphModel model, PassLog log) {
        GraphEdit edit = GraphEdit.of(model.graph());
        int folded = fold(edit, Analysis.of(model));
        if (folded == 0) {
            return model;
        }
        int removed = edit.removeUnreachable();
        Graph graph = edit.build();
        log.note(
                name(),
                "",
                folded + " nodes computed, " + (folded + removed) + " removed, "
                        + graph.nodes().size() + " left");
        return model.withGraph(graph);
    }

    private static int fold(GraphEdit edit, Analysis analysis) {
        List<Node> foldable = new ArrayList<>();
        for (Node n : edit.nodes()) {
            if (isKnown(n, edit, analysis)) {
                foldable.add(n);
            }
        }
        for (Node n : foldable) {
            edit.remove(n);
        }
        for (Node n : foldable) {
            for (String value : n.outputs()) {
                KnownValue known = value.isEmpty() ? null : analysis.value(value);
                // Values that only other folded nodes read are not made at all.
                if (known != null && !edit.consumers(value).isEmpty()) {
                    edit.putInitializer(Initializer.of(known.toTensor(value)));
                }
            }
        }
        return foldable.size();
    }

    private static boolean isKnown(Node n, GraphEdit edit, Analysis analysis) {
        if (n.outputs().isEmpty() || !n.domain().isEmpty() || !n.subgraphs().isEmpty()) {
            return false;
        }
        for (String value : n.outputs()) {
            KnownValue known = value.isEmpty() ? null : analysis.value(value);
            if (edit.isOutput(value) || (!value.isEmpty() && (known == null || !known.isComplete()))) {
                return false;
            }
        }
        return true;
    }
}
