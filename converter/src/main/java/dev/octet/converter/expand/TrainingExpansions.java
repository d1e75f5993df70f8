package dev.octet.converter.expand;

import dev.octet.converter.infer.Analysis;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Operators for which the trainer has no derivative, written with those for which it has one: less used activations, normalisations over
 * groups, blocks rearranged into channels, Einsum, transposed convolutions, attention with a softcap. What they compute is the same up to
 * rounding. A node whose form cannot be written this way stays, and the trainer names it when it refuses the graph.
 */
public final class TrainingExpansions {
    /** Writes a node anew, or says that it cannot, having changed nothing. */
    @FunctionalInterface
    interface Rewrite {
        boolean write(Rewriting r);
    }

    private static final Map<String, Rewrite> ALL = new TreeMap<>();

    static {
        ALL.putAll(ActivationRewrites.ALL);
        ALL.putAll(NormalisationRewrites.ALL);
        ALL.putAll(MovementRewrites.ALL);
        ALL.put("Attention", TrainingExpansions::cappedAttention);
        ALL.put("ConvTranspose", ConvTransposeRewrite::write);
        ALL.put("Einsum", EinsumRewrite::write);
    }

    private TrainingExpansions() {}

    /** The trainer's own Attention has no softcap. */
    private static boolean cappedAttention(Rewriting r) {
        Node n = r.node();
        boolean cached = n.hasInput(4) || n.hasInput(5) || n.hasInput(6) || n.outputs().size() > 1;
        if (n.floatAttribute("softcap", 0) == 0 || cached) {
            return false;
        }
        new AttentionRewrite(r, new SharedValues()).write();
        return true;
    }

    /** Names of the operators of ONNX's default domain that are written with others, by the alphabet. */
    public static List<String> names() {
        return List.copyOf(ALL.keySet());
    }

    /**
     * The model with such operators replaced; the very same object when it has none.
     *
     * @param model at concrete shapes, opset 21 or later
     */
    public static GraphModel apply(GraphModel model) {
        List<Node> found = model.graph().nodes().stream()
                .filter(n -> n.domain().isEmpty() && ALL.containsKey(n.opType()))
                .toList();
        if (found.isEmpty()) {
            return model;
        }
        Analysis analysis = Analysis.of(model);
        GraphEdit edit = GraphEdit.of(model.graph());
        boolean changed = false;
        for (Node n : found) {
            Rewrite rewrite = ALL.get(n.opType());
            changed |= rewrite != null && rewrite.write(new Rewriting(n, analysis, new Expansion(edit, n)));
        }
        return changed ? model.withGraph(edit.build()) : model;
    }
}
