package dev.octet.converter.pass;

import dev.octet.converter.infer.Analysis;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Tensor;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Gives every reader of a merged weight its own.
 *
 * <p>Exporters keep one of several equal tensors, so that in a fresh model one row of zeros is the bias of eight layers (and a
 * row of ones a scale here, a variance there), directly or through {@code Identity} nodes. Calibrating or training such a
 * graph would tie what the model keeps apart. Two weights are equal by accident only when all their elements are one number;
 * so such a weight is untied, while one with different elements that several nodes read is the same parameter for them all
 * (shared layers; an embedding that is the output projection too) and stays shared. Copies share the bytes.
 *
 * <p>Also finds weights that are the transpose of another: exporters write a tied output projection that way.
 */
public final class UntieInitializers implements Pass {
    @Override
    public String name() {
        return "untie-initializers";
    }

    @Override
    public GraphModel apply(GraphModel model, PassLog log) {
        GraphEdit edit = GraphEdit.of(model.graph());
        boolean changed = false;
        for (String weight : edit.initializerNames()) {
            Tensor t = parameter(edit, weight);
            if (t != null) {
                boolean accidental = t.isUniform();
                changed |= removeIdentities(edit, weight, accidental, log);
                if (accidental) {
                    changed |= untie(edit, weight, log);
                } else {
                    reportSharing(edit, weight, log);
                }
            }
        }
        reportTransposes(edit, log);
        return changed ? model.withGraph(edit.build()) : model;
    }

    private static @Nullable Tensor parameter(GraphEdit edit, String name) {
        Initializer c = edit.initializer(name);
        return c == null
                ? null
                : c.tensor()
                        .filter(t -> Analysis.isParameter(t) && t.shape().rank() > 0)
                        .orElse(null);
    }

    /**
     * {@code y = Identity(weight)}: readers of y read the weight, or a weight of their own called y, which is the name the
     * parameter had before it was merged.
     */
    private boolean removeIdentities(GraphEdit edit, String weight, boolean accidental, PassLog log) {
        boolean changed = false;
        for (Node n : edit.consumers(weight)) {
            if (!n.is("Identity") || edit.isOutput(n.output())) {
                continue;
            }
            edit.remove(n);
            if (accidental) {
                copy(edit, weight, n.output());
                log.note(name(), n.output(), "was merged with " + weight + ", is a weight of its own now");
            } else {
                edit.redirect(n.output(), weight);
                log.note(name(), n.output(), "is the same parameter as " + weight);
            }
            changed = true;
        }
        return changed;
    }

    private static void copy(GraphEdit edit, String weight, String name) {
        Initializer c = edit.initializer(weight);
        if (c != null && c.data() instanceof Initializer.Dense d) {
            edit.putInitializer(new Initializer(
                    name, new Initializer.Dense(d.tensor().withName(name)), c.doc(), c.metadata(), c.unknown()));
        }
    }

    /** The first place that reads the weight keeps it; each further one gets a copy by name. */
    private boolean untie(GraphEdit edit, String weight, PassLog log) {
        boolean first = true;
        boolean changed = false;
        for (Node n : edit.consumers(weight)) {
            List<String> inputs = new ArrayList<>(n.inputs());
            boolean renamed = false;
            for (int i = 0; i < inputs.size(); i++) {
                if (!inputs.get(i).equals(weight)) {
                    continue;
                }
                if (first) {
                    first = false;
                    continue;
                }
                String own = edit.freshName(weight);
                copy(edit, weight, own);
                inputs.set(i, own);
                renamed = true;
                log.note(name(), n.id(), "input " + i + " was merged with " + weight + ", is " + own + " now");
            }
            if (renamed) {
                edit.replace(n, n.withInputs(inputs));
                changed = true;
            }
        }
        return changed;
    }

    private void reportSharing(GraphEdit edit, String weight, PassLog log) {
        List<Node> readers = edit.consumers(weight);
        if (readers.size() > 1) {
            log.note(
                    name(),
                    weight,
                    "stays shared by " + readers.size() + " nodes, first "
                            + readers.getFirst().id());
        }
    }

    private void reportTransposes(GraphEdit edit, PassLog log) {
        List<Tensor> matrices = new ArrayList<>();
        for (String name : edit.initializerNames()) {
            Tensor t = parameter(edit, name);
            if (t != null && t.shape().rank() == 2 && !t.isUniform()) {
                matrices.add(t.withName(name));
            }
        }
        for (int i = 0; i < matrices.size(); i++) {
            for (int j = i + 1; j < matrices.size(); j++) {
                if (matrices.get(i).isTransposeOf(matrices.get(j))) {
                    log.note(
                            name(),
                            matrices.get(j).name(),
                            "is the transpose of " + matrices.get(i).name() + ": a tie that the export broke");
                }
            }
        }
    }
}
