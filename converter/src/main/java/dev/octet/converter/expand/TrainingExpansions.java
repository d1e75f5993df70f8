package dev.octet.converter.expand;

import dev.octet.converter.infer.Analysis;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Operators that no derivative is known of, written with those that the trainer has: less used activations, normalisations over groups,
 * blocks turned into channels, Einsum, transposed convolutions. What they compute is the same up to rounding. A node in a form that
 * cannot be written so stays, and is named by whoever cannot train it.
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
        ALL.put("ConvTranspose", ConvTransposeRewrite::write);
        ALL.put("Einsum", EinsumRewrite::write);
    }

    private TrainingExpansions() {}

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
