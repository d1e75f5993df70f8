package dev.octet.converter.pass;

import dev.octet.converter.infer.Analysis;
import dev.octet.converter.infer.KnownValue;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import org.jspecify.annotations.Nullable;

/**
 * Takes out nodes of the main graph that pass their input through: Identity, Dropout outside training, Cast to the type the
 * value has. {@code Identity(weight)} is left to {@link UntieInitializers}, which reads the parameter's name off it.
 */
public final class IdentityRemoval implements Pass {
    @Override
    public String name() {
        return "identity-removal";
    }

    @Override
    public GraphModel apply(GraphModel model, PassLog log) {
        Analysis analysis = Analysis.of(model);
        GraphEdit edit = GraphEdit.of(model.graph());
        int removed = 0;
        for (Node old : edit.nodes()) {
            // An earlier removal may have given this node other inputs, and so another object.
            Node n = old.outputs().isEmpty() ? null : edit.producer(old.output());
            if (n != null && passesThrough(n, edit, analysis) && bypass(n, edit)) {
                removed++;
            }
        }
        for (Node n : edit.nodes()) {
            if (n.is("Dropout")) {
                log.note(name(), n.id(), "stays: it drops at random (exported in training mode?) or its mask is read");
            }
        }
        if (removed == 0) {
            return model;
        }
        edit.removeUnreachable(); // ratios and the like that only they read
        log.note(name(), "", removed + " nodes that pass their input through were removed");
        return model.withGraph(edit.build());
    }

    private static boolean passesThrough(Node n, GraphEdit edit, Analysis analysis) {
        if (!n.hasInput(0)) {
            return false;
        }
        if (n.is("Identity")) {
            Initializer c = edit.initializer(n.input(0));
            return c == null || !c.tensor().map(Analysis::isParameter).orElse(false);
        }
        if (n.is("Dropout")) {
            String mask = n.output(1);
            boolean maskRead = !mask.isEmpty()
                    && (edit.isOutput(mask) || !edit.consumers(mask).isEmpty());
            return !maskRead && (!n.hasInput(2) || isFalse(analysis.value(n.input(2))));
        }
        if (n.is("Cast")) {
            DType to = DType.ofOnnxId((int) n.intAttribute("to", 0)).orElse(null);
            return to != null && to == analysis.dtype(n.input(0));
        }
        return false;
    }

    private static boolean isFalse(@Nullable KnownValue v) {
        return v != null && v.integers().map(i -> i.length == 1 && i[0] == 0).orElse(false);
    }

    /** Lets the readers of {@code n} read its input; false when the graph's outputs do not allow it. */
    private static boolean bypass(Node n, GraphEdit edit) {
        String from = n.input(0);
        String to = n.output();
        if (!edit.isOutput(to)) {
            edit.remove(n);
            edit.redirect(to, from);
            return true;
        }
        // The graph's output keeps its name: the producer takes it over, if it is a node and not an output as well.
        Node producer = edit.producer(from);
        if (producer == null || edit.isOutput(from)) {
            return false;
        }
        edit.remove(n);
        edit.replace(
                producer,
                producer.withOutputs(producer.outputs().stream()
                        .map(o -> o.equals(from) ? to : o)
                        .toList()));
        edit.redirect(from, to);
        return true;
    }
}
