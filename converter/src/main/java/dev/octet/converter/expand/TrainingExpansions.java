package dev.octet.converter.expand;

import dev.octet.converter.infer.Analysis;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Operators without a derivative in the trainer, decomposed into operators that have one: less used activations, normalisations over
 * groups, blocks as channels, Einsum, transposed convolutions, attention with a softcap. The results are the same up to rounding. A node
 * whose form cannot be decomposed is left as it is; the trainer then names it in its refusal.
 */
public final class TrainingExpansions {
    /** Rewrites a node, or returns false and changes nothing. */
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
        boolean cached =
                n.hasInput(4) || n.hasInput(5) || n.hasInput(6) || n.outputs().size() > 1;
        if (n.floatAttribute("softcap", 0) == 0 || cached) {
            return false;
        }
        new AttentionRewrite(r, new SharedValues()).write();
        return true;
    }

    /** Names of the operators of ONNX's default domain that are decomposed, in alphabetical order. */
    public static List<String> names() {
        return List.copyOf(ALL.keySet());
    }

    /**
     * The model with such operators replaced; the same object when it has none.
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
