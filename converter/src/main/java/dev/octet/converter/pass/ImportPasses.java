package dev.octet.converter.pass;

import dev.octet.converter.infer.Analysis;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/**
 * What every imported model goes through before patterns are looked for: afterwards it is at opset 21 or later, nodes follow
 * what they read, constants are initializers and nothing else is, what can be computed is computed, and types are known as far
 * as they can be. Outputs are bit for bit those of the model before.
 */
public final class ImportPasses {
    /** In this order; one more pass is one more line. */
    public static final List<Pass> ALL = List.of(
            new GraphOrder(),
            new InputDefaults(),
            new OpsetUpgrade(),
            new ConstantNodes(),
            new IdentityRemoval(),
            new ShapeInference(),
            new ConstantFolding(),
            new ShapeInference(),
            new UntieInitializers());

    /** What {@link #specialise} does once sizes are numbers. */
    private static final List<Pass> AFTER_FIXING = List.of(
            new ShapeInference(),
            new ConstantFolding(),
            new EmptyOperands(),
            new IdentityRemoval(),
            new ShapeInference());

    private ImportPasses() {}

    /**
     * The model after all passes; {@code log} records what they did.
     *
     * @throws dev.octet.formats.error.OctetException when the model contradicts itself or is of an unknown opset
     */
    public static GraphModel apply(GraphModel model, PassLog log) {
        GraphModel result = model;
        for (Pass pass : ALL) {
            result = pass.apply(result, log);
        }
        return result;
    }

    /**
     * The model for one size of everything: the symbols in the inputs' shapes become the numbers given, and all that follows
     * from them is folded. For programs that are made once per batch size and sequence length.
     *
     * <p>The result is right for these numbers only, so they must be kept with it.
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
        GraphModel result = fixed;
        for (Pass pass : AFTER_FIXING) {
            result = pass.apply(result, log);
        }
        return withDerivedOutputs(result);
    }

    /** Exporters declare outputs with symbols of their own ({@code Addlogits_dim_0}), which follow from the inputs' sizes all the same. */
    private static GraphModel withDerivedOutputs(GraphModel model) {
        Analysis analysis = Analysis.of(model);
        GraphEdit edit = GraphEdit.of(model.graph());
        edit.setOutputs(model.graph().outputs().stream()
                .map(v -> {
                    TensorType derived = analysis.type(v.name());
                    boolean open = dims(v).stream().anyMatch(d -> !d.isKnown());
                    return open && derived != null ? v.withType(derived) : v;
                })
                .toList());
        return model.withGraph(edit.build());
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
