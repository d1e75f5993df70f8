package dev.octet.converter.infer;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Types of a graph's values and the elements of its small ones, computed in one walk along the nodes' order.
 *
 * <p>The type an operator's rule derives takes precedence over the file's declaration of an inner value, because declarations go
 * stale when models are edited; they fill in where nothing is derived. Weights (float constants of more than one element)
 * never count as known elements: they are parameters, not arithmetic. An operator without a rule has unknown outputs.
 */
public final class Analysis {
    /** Where a declaration in the file and the derived type surely differ. The derived one was used. */
    public record Doubt(String value, String text) {}

    private final @Nullable Analysis outer;
    private final Map<String, Initializer> constants = new HashMap<>();
    private final Map<String, TensorType> types = new HashMap<>();
    private final Map<String, KnownValue> values = new HashMap<>();
    private final Map<String, TensorType> declared = new HashMap<>();
    private final List<Doubt> doubts = new ArrayList<>();
    private final long opset;

    private Analysis(long opset, @Nullable Analysis outer) {
        this.opset = opset;
        this.outer = outer;
    }

    /**
     * The main graph of {@code model}.
     *
     * @throws MalformedModelException when a node's operands surely cannot go together
     */
    public static Analysis of(GraphModel model) {
        return of(model.graph(), model.opset(), null);
    }

    /**
     * A graph of the given version of the default domain; for a subgraph, {@code outer} is the analysis of the graph around it.
     *
     * @throws MalformedModelException when a node's operands surely cannot go together
     */
    public static Analysis of(Graph graph, long opset, @Nullable Analysis outer) {
        Analysis a = new Analysis(opset, outer);
        a.constants.putAll(graph.initializers());
        for (ValueInfo input : graph.inputs()) {
            // An initializer that is an input too is only a default, which the caller may replace.
            a.constants.remove(input.name());
            if (input.type() instanceof TensorType t) {
                a.types.put(input.name(), t);
            }
        }
        a.constants.forEach((name, c) -> a.types.put(name, typeOf(c)));
        graph.valueInfos().forEach((name, v) -> a.declare(name, v.type()));
        graph.outputs().forEach(v -> a.declare(v.name(), v.type()));
        for (Node n : graph.nodes()) {
            a.visit(n);
        }
        return a;
    }

    private void declare(String name, @Nullable ValueType type) {
        if (type instanceof TensorType t) {
            declared.put(name, t);
        }
    }

    private static TensorType typeOf(Initializer c) {
        return switch (c.data()) {
            case Initializer.Dense d ->
                new TensorType(d.tensor().dtype(), Shapes.dims(d.tensor().shape()));
            case Initializer.Coded coded ->
                new TensorType(
                        coded.tensor().spec().dtype(),
                        Shapes.dims(coded.tensor().spec().shape()));
            case Initializer.Strings s -> new TensorType(DType.STRING, Shapes.dims(s.shape()));
            case Initializer.Opaque o -> new TensorType(null, Shapes.dims(o.shape()));
            case Initializer.Sparse s -> new TensorType(s.values().dtype(), Shapes.dims(s.shape()));
        };
    }

    private void visit(Node n) {
        NodeTypes t = new NodeTypes(n, this);
        TypeRule rule = TypeRules.of(n);
        if (rule != null) {
            rule.infer(t);
        }
        List<KnownValue> known = evaluate(n);
        for (int i = 0; i < n.outputs().size(); i++) {
            String name = n.output(i);
            if (name.isEmpty()) {
                continue;
            }
            TensorType derived = t.derived(i);
            if (i < known.size()) {
                values.put(name, known.get(i));
                derived = new TensorType(
                        known.get(i).dtype(), Shapes.dims(known.get(i).shape()));
            }
            TensorType merged = merge(n, name, derived, declared.get(name));
            if (merged != null) {
                types.put(name, merged);
            }
        }
    }

    private List<KnownValue> evaluate(Node n) {
        List<Dim> dims = n.is("Shape") ? dims(n.input(0)) : null;
        if (dims != null) {
            return List.of(Evaluator.shapeOf(n, dims));
        }
        List<@Nullable KnownValue> in = new ArrayList<>();
        for (String name : n.inputs()) {
            in.add(name.isEmpty() ? null : value(name));
        }
        return Evaluator.evaluate(n, in);
    }

    private @Nullable TensorType merge(
            Node n, String name, @Nullable TensorType derived, @Nullable TensorType declaredType) {
        if (derived == null || declaredType == null) {
            return derived == null ? declaredType : derived;
        }
        DType dtype = derived.dtype() == null ? declaredType.dtype() : derived.dtype();
        if (declaredType.dtype() != null && declaredType.dtype() != dtype) {
            throw contradiction(
                    n, "output '" + name + "' is " + dtype + ", the file declares it " + declaredType.dtype());
        }
        List<Dim> dims = derived.dims();
        List<Dim> declaredDims = declaredType.dims();
        if (dims == null || declaredDims == null) {
            return new TensorType(dtype, dims == null ? declaredDims : dims);
        }
        if (dims.size() != declaredDims.size()) {
            doubts.add(new Doubt(name, "declared as " + declaredDims + ", but " + n.opType() + " yields " + dims));
            return new TensorType(dtype, dims);
        }
        List<Dim> merged = new ArrayList<>();
        for (int i = 0; i < dims.size(); i++) {
            Dim d = dims.get(i);
            Dim s = declaredDims.get(i);
            if (d.size() != null && s.size() != null && !d.sameAs(s)) {
                doubts.add(new Doubt(name, "declared as " + declaredDims + ", but " + n.opType() + " yields " + dims));
            }
            merged.add(d.size() != null || d.symbol() != null ? d : s);
        }
        return new TensorType(dtype, merged);
    }

    static MalformedModelException contradiction(Node n, String what) {
        return new MalformedModelException(
                what,
                "node " + n.id() + " (" + n.opType() + ")",
                "no runtime can run this node: export the model again");
    }

    /** Type of a value of this graph or one around it; null when unknown. */
    public @Nullable TensorType type(String name) {
        TensorType t = types.get(name);
        return t != null || outer == null ? t : outer.type(name);
    }

    /** Dimensions of a value; null when not even the rank is known. */
    public @Nullable List<Dim> dims(String name) {
        TensorType t = type(name);
        return t == null ? null : t.dims();
    }

    /** Element type of a value; null when unknown. */
    public @Nullable DType dtype(String name) {
        TensorType t = type(name);
        return t == null ? null : t.dtype();
    }

    /** Elements of a value as far as known; null when nothing is known, and for weights. */
    public @Nullable KnownValue value(String name) {
        KnownValue v = values.get(name);
        if (v != null) {
            return v;
        }
        Initializer c = constants.get(name);
        if (c != null) {
            v = c.tensor().filter(t -> !isParameter(t)).flatMap(KnownValue::of).orElse(null);
            if (v != null) {
                values.put(name, v);
            }
            return v;
        }
        return outer == null || types.containsKey(name) ? null : outer.value(name);
    }

    /** The constant called {@code name} in this graph or one around it; null when there is no such constant. */
    public @Nullable Initializer constant(String name) {
        Initializer c = constants.get(name);
        return c != null || outer == null || types.containsKey(name) ? c : outer.constant(name);
    }

    /** Whether a constant is a weight or table of the model: floats, more than one. */
    public static boolean isParameter(Tensor tensor) {
        return tensor.dtype().isFloat() && tensor.shape().elementCount() > 1;
    }

    /** Declarations of the file that turned out wrong. */
    public List<Doubt> doubts() {
        return List.copyOf(doubts);
    }

    /** Version of the default domain. */
    public long opset() {
        return opset;
    }
}
