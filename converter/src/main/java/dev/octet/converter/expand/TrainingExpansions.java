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
 * groups, blocks as channels, Einsum, transposed convolutions. The results are the same up to rounding. A node whose
 * form cannot be decomposed is left as it is; the trainer then names it in its refusal.
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
        ALL.put("ConvTranspose", ConvTransposeRewrite::write);
        ALL.put("Einsum", EinsumRewrite::write);
    }

    private TrainingExpansions() {}

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
