package dev.octet.converter.pass;

import dev.octet.converter.infer.Analysis;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import java.util.List;

/**
 * Takes operands of length zero out of Concat nodes, as a cache of keys and values is before the first token. Concat of a single operand becomes Identity, which
 * {@link IdentityRemoval} takes out.
 */
final class EmptyOperands implements Pass {
    @Override
    public String name() {
        return "empty-operands";
    }

    @Override
    public GraphModel apply(GraphModel model, PassLog log) {
        Analysis analysis = Analysis.of(model);
        GraphEdit edit = GraphEdit.of(model.graph());
        int removed = 0;
        for (Node n : edit.nodes()) {
            long axis = n.intAttribute("axis", 0);
            List<String> full = n.is("Concat")
                    ? n.inputs().stream()
                            .filter(i -> !isEmpty(analysis, i, axis))
                            .toList()
                    : n.inputs();
            if (full.size() < n.inputs().size() && !full.isEmpty()) {
                removed += n.inputs().size() - full.size();
                edit.replace(
                        n,
                        full.size() == 1
                                ? Node.of(n.name(), "Identity", full, n.outputs())
                                        .withMetadata(n.metadata())
                                : n.withInputs(full));
            }
        }
        if (removed == 0) {
            return model;
        }
        edit.removeUnreachable();
        log.note(name(), "", removed + " operands of length zero were removed");
        return model.withGraph(edit.build());
    }

    /** Along another axis all operands are empty, and each counts. */
    private static boolean isEmpty(Analysis analysis, String value, long axis) {
        List<Dim> dims = analysis.dims(value);
        int place = dims == null ? -1 : (int) (axis < 0 ? axis + dims.size() : axis);
        Long size = dims == null || place < 0 || place >= dims.size()
                ? null
                : dims.get(place).size();
        return size != null && size == 0;
    }
}
