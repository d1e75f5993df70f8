package dev.octet.converter.pass;

import dev.octet.converter.infer.Analysis;
import dev.octet.converter.infer.KnownValue;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

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
                folded + " nodes computed, " + (folded + removed) + " gone, "
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

    /**
     * The model for one size of everything: the symbols in the inputs' shapes become the numbers given, and all that follows
     * from them is folded. For programs that are made once per batch size and sequence length.
     *
     * <p>The result is right for these numbers only, so whoever keeps it must keep them with it.
     *
     * @param sizes number by symbol, each at least 0
     * @throws InvalidDataException when a symbol is not in the model, or an input's dimension stays open
     */
    public static GraphModel specialise(GraphModel model, Map<String, Long> sizes, PassLog log) {
        Graph graph = model.graph();
        Set<String> open = new TreeSet<>();
        List<ValueInfo> inputs =
                graph.inputs().stream().map(v -> fixed(v, sizes, open)).toList();
        if (!open.isEmpty()) {
            throw new InvalidDataException(
                    "dimensions " + open + " of the model's inputs have no number",
                    "sizes given for " + new TreeSet<>(sizes.keySet()),
                    "give a number for each");
        }
        Set<String> unknown = new TreeSet<>(sizes.keySet());
        graph.inputs().forEach(v -> dims(v).forEach(d -> unknown.remove(d.symbol() == null ? "" : d.symbol())));
        if (!unknown.isEmpty()) {
            throw new InvalidDataException(
                    "the model's inputs have no dimensions " + unknown,
                    "sizes given for " + new TreeSet<>(sizes.keySet()),
                    "leave them out; `octet inspect` shows the inputs");
        }
        GraphEdit edit = GraphEdit.of(graph);
        edit.setInputs(inputs);
        edit.setOutputs(graph.outputs().stream()
                .map(v -> fixed(v, sizes, new HashSet<>()))
                .toList());
        // Inner types hold symbols that are numbers now: they are derived anew.
        GraphModel fixed = model.withGraph(edit.build().withValueInfos(Map.of()));
        GraphModel folded = new ConstantFolding().apply(fixed, log);
        folded = new IdentityRemoval().apply(folded, log);
        return new ShapeInference().apply(folded, log);
    }

    private static List<Dim> dims(ValueInfo v) {
        return v.type() instanceof TensorType t && t.dims() != null ? t.dims() : List.of();
    }

    private static ValueInfo fixed(ValueInfo v, Map<String, Long> sizes, Set<String> open) {
        if (!(v.type() instanceof TensorType t) || t.dims() == null) {
            return v;
        }
        List<Dim> dims = new ArrayList<>();
        for (int i = 0; i < t.dims().size(); i++) {
            Dim d = t.dims().get(i);
            Long size = d.symbol() == null ? null : sizes.get(d.symbol());
            if (size == null && !d.isKnown()) {
                open.add(d.symbol() == null ? v.name() + "[" + i + "]" : d.symbol());
            }
            dims.add(size == null ? d : new Dim(size, null, d.denotation()));
        }
        return v.withType(new TensorType(t.dtype(), dims, t.denotation(), t.unknown()));
    }
}
