package dev.octet.trainer.autodiff;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.CodedTensor;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.Ops;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** The part of a graph that a program needs: the nodes that its outputs and its loss depend on. Names, inputs and operators are checked. */
final class NeededGraph {
    private final GraphModel model;
    private final List<Node> nodes;
    private final Map<String, OperandType> inputs = new LinkedHashMap<>();
    private final Set<String> weights;
    private final Set<String> stored;

    private NeededGraph(GraphModel model, List<Node> nodes, Set<String> weights, Set<String> stored) {
        this.model = model;
        this.nodes = nodes;
        this.weights = weights;
        this.stored = stored;
        Graph graph = model.graph();
        for (ValueInfo v : graph.requiredInputs()) {
            OperandType type = type(v);
            if (type != null) {
                inputs.put(v.name(), type);
            }
        }
    }

    /** Checks names and operators. */
    static NeededGraph of(GraphModel model, ProgramOptions options) {
        Graph graph = model.graph();
        Set<String> defined = graph.definitions();
        List<String> wanted = new ArrayList<>(options.outputs());
        wanted.addAll(options.upstream());
        if (options.loss() != null) {
            wanted.add(options.loss());
        }
        List<String> asked = new ArrayList<>(wanted);
        // a trained parameter may be unused at these shapes
        options.trained().stream()
                .filter(t -> !options.parameters().contains(t))
                .forEach(asked::add);
        for (String name : asked) {
            if (!defined.contains(name)) {
                throw new InvalidOptionException(
                        "'" + name + "' is not a value of the graph",
                        "graph '" + graph.name() + "'",
                        "outputs are "
                                + graph.outputs().stream().map(ValueInfo::name).toList()
                                + "; `octet inspect --parameters` lists them");
            }
        }
        Set<String> weights = new LinkedHashSet<>(options.parameters());
        weights.addAll(options.trained());
        NeededGraph needed = new NeededGraph(model, upTo(graph, wanted), weights, options.stored());
        needed.checkInputs();
        needed.checkOperators();
        return needed;
    }

    /** Nodes that {@code wanted} depends on, in graph order. */
    private static List<Node> upTo(Graph graph, List<String> wanted) {
        Set<String> needed = new LinkedHashSet<>(wanted);
        List<Node> nodes = new ArrayList<>();
        for (Node n : graph.nodes().reversed()) {
            if (n.outputs().stream().anyMatch(needed::contains)) {
                nodes.addFirst(n);
                needed.addAll(n.uses());
            }
        }
        return nodes;
    }

    private void checkInputs() {
        Set<String> used = new LinkedHashSet<>();
        nodes.forEach(n -> used.addAll(n.uses()));
        List<String> open = model.graph().requiredInputs().stream()
                .filter(v -> used.contains(v.name()) && type(v) == null)
                .map(v -> v.name() + " " + v.type())
                .toList();
        if (!open.isEmpty()) {
            throw new UnsupportedModelException(
                    "inputs without a fixed shape and type: " + String.join(", ", open),
                    "graph '" + model.graph().name() + "'",
                    "give a size for each open dimension; programs are compiled for fixed shapes");
        }
    }

    /** Builds every operator once, with the unchanged graph's types, so that one exception lists all that cannot be trained. */
    private void checkOperators() {
        Map<String, List<String>> missing = new TreeMap<>();
        for (Node n : nodes) {
            if (Ops.reader(n).isEmpty()) {
                String type = n.domain().isEmpty() ? n.opType() : n.domain() + "." + n.opType();
                missing.computeIfAbsent(type, t -> new ArrayList<>()).add("'" + n.id() + "'");
            }
        }
        if (!missing.isEmpty()) {
            throw new UnsupportedModelException(
                    "operators that cannot be trained: " + String.join(", ", missing.keySet()),
                    missing.entrySet().stream()
                            .map(e -> e.getKey() + " in node " + some(e.getValue()))
                            .collect(Collectors.joining("; ")),
                    missing.keySet().stream().anyMatch(t -> CONTROL_FLOW.contains(t))
                            ? "export the model without control flow (" + String.join(", ", CONTROL_FLOW)
                                    + "), with fixed trip counts unrolled"
                            : "export these parts with operators that Octet trains, see docs/training.md: "
                                    + String.join(", ", Ops.names()));
        }
        List<UnsupportedModelException> refusals = refusals();
        if (refusals.size() == 1) {
            throw refusals.getFirst();
        }
        if (!refusals.isEmpty()) {
            throw new UnsupportedModelException(
                    refusals.stream().map(UnsupportedModelException::what).collect(Collectors.joining("; ")),
                    refusals.stream().map(UnsupportedModelException::where).collect(Collectors.joining("; ")),
                    refusals.stream()
                            .map(UnsupportedModelException::fix)
                            .distinct()
                            .collect(Collectors.joining("; ")));
        }
    }

    private static final Set<String> CONTROL_FLOW = Set.of("If", "Loop", "Scan");

    private static String some(List<String> names) {
        int shown = 4;
        return names.size() <= shown
                ? String.join(", ", names)
                : String.join(", ", names.subList(0, shown)) + " and " + (names.size() - shown) + " more";
    }

    private List<UnsupportedModelException> refusals() {
        return read((_, _, _) -> {});
    }

    /** What is done with a node that was read. */
    interface Reading {
        /** @param types of its operands so far known, inputs among them */
        void read(Node node, Op op, Map<String, OperandType> types);
    }

    /** Reads each node as an operator, in the types of the unchanged graph; returns why some cannot be. */
    List<UnsupportedModelException> read(Reading reading) {
        Map<String, OperandType> types = new HashMap<>(inputs);
        List<UnsupportedModelException> refusals = new ArrayList<>();
        for (Node n : nodes) {
            List<@Nullable OperandType> of = new ArrayList<>();
            boolean known = true;
            for (String name : n.inputs()) {
                OperandType t = name.isEmpty() ? null : types.computeIfAbsent(name, this::constantType);
                known &= t != null || name.isEmpty();
                of.add(t);
            }
            if (!known) {
                continue; // depends on a rejected node
            }
            try {
                Op op = Ops.reader(n).orElseThrow().read(source(n, of));
                List<OperandType> made = op.outputs();
                Map<String, OperandType> operands = new HashMap<>();
                for (int j = 0; j < Math.min(made.size(), n.outputs().size()); j++) {
                    types.put(n.output(j), made.get(j));
                    operands.put(n.output(j), made.get(j));
                }
                for (int i = 0; i < of.size(); i++) {
                    OperandType t = of.get(i);
                    if (t != null) {
                        operands.put(n.input(i), t);
                    }
                }
                reading.read(n, op, operands);
            } catch (UnsupportedModelException e) {
                refusals.add(e);
            }
        }
        return refusals;
    }

    private @Nullable OperandType constantType(String name) {
        Initializer c = model.graph().initializers().get(name);
        TensorSpec spec = c == null ? null : c.spec().orElse(null);
        // stored matrices count as F32, which the operators that read them take them for
        boolean wide = isWeight(name) || stored.contains(name);
        return spec == null ? null : new OperandType(wide ? DType.F32 : spec.dtype(), spec.shape());
    }

    /** The source from which the operator of {@code node} is built, given the types of its inputs. */
    OpSource source(Node node, List<@Nullable OperandType> types) {
        List<@Nullable Tensor> constants = new ArrayList<>();
        for (String name : node.inputs()) {
            constants.add(isWeight(name) || stored.contains(name) ? null : constant(name));
        }
        return new OpSource(node, types, constants, model.opsets().getOrDefault(node.domain(), 1L));
    }

    private static @Nullable OperandType type(ValueInfo v) {
        if (!(v.type() instanceof TensorType t) || t.dtype() == null || t.dims() == null) {
            return null;
        }
        long[] dims = new long[t.dims().size()];
        for (int i = 0; i < dims.length; i++) {
            Dim d = t.dims().get(i);
            if (d.size() == null) {
                return null;
            }
            dims[i] = d.size();
        }
        return new OperandType(t.dtype(), Shape.of(dims));
    }

    List<Node> nodes() {
        return nodes;
    }

    /** Type of the graph input; null when there is no such input. */
    @Nullable
    OperandType input(String name) {
        return inputs.get(name);
    }

    /** Elements of the constant; null when there is no such constant. */
    @Nullable
    Tensor constant(String name) {
        Initializer c = name.isEmpty() ? null : model.graph().initializers().get(name);
        return c == null ? null : c.tensor().orElse(null);
    }

    /** The constant that a node reads as it is stored; null when its input {@code i} is another value. */
    @Nullable
    Initializer stored(Node node, int i) {
        return i < node.inputs().size() && stored.contains(node.input(i)) && StoredWeights.reads(node, i)
                ? model.graph().initializers().get(node.input(i))
                : null;
    }

    /** Elements of a coded constant that an operator reads which takes floats only; null for other values. */
    @Nullable
    Tensor decoded(String name) {
        Initializer c = model.graph().initializers().get(name);
        if (c == null || !(c.data() instanceof Initializer.Coded(CodedTensor coded))) {
            return null;
        }
        return Parameters.decoded(coded);
    }

    /** Whether the constant is kept in persistent memory as an F32 weight. */
    boolean isWeight(String name) {
        return weights.contains(name) && !inputs.containsKey(name);
    }
}
