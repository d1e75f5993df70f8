package dev.octet.converter.restore;

import dev.octet.converter.infer.Analysis;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.LongStream;
import org.jspecify.annotations.Nullable;

/** Finds what makes a value in a graph, skipping nodes that only move elements or change their type. */
final class FixedGraph {
    /** Operators that only change the place, shape or float type of their first input's elements. The proof checks the exact move. */
    private static final Set<String> MOVES =
            Set.of("Identity", "Cast", "Reshape", "Transpose", "Unsqueeze", "Squeeze", "Flatten", "Expand", "Dropout");

    private final Graph graph;
    private final Map<String, Node> producers = new HashMap<>();
    private final Set<String> inputs = new HashSet<>();
    private final @Nullable Analysis analysis;

    private FixedGraph(Graph graph, @Nullable Analysis analysis) {
        this.graph = graph;
        this.analysis = analysis;
        for (Node n : graph.nodes()) {
            n.outputs().forEach(o -> producers.put(o, n));
        }
        graph.inputs().forEach(i -> inputs.add(i.name()));
    }

    /** Analyses a graph with its shapes. */
    static FixedGraph of(GraphModel model) {
        return new FixedGraph(model.graph(), Analysis.of(model));
    }

    /** Analyses a graph without shapes. */
    static FixedGraph of(Graph graph) {
        return new FixedGraph(graph, null);
    }

    List<Node> nodes() {
        return graph.nodes();
    }

    List<ValueInfo> inputs() {
        return graph.inputs();
    }

    List<ValueInfo> outputs() {
        return graph.outputs();
    }

    @Nullable
    Node producer(String value) {
        return producers.get(value);
    }

    boolean isInput(String value) {
        return inputs.contains(value);
    }

    /** The value that {@code value} is a move of, or {@code value} itself. */
    String unmoved(String value) {
        String v = value;
        for (Node n = producers.get(v); n != null && isMove(n, v); n = producers.get(v)) {
            v = n.input(0);
        }
        return v;
    }

    private static boolean isMove(Node n, String value) {
        return n.domain().isEmpty() && MOVES.contains(n.opType()) && n.output().equals(value);
    }

    /** The node that computed {@code value}, skipping moves; null for inputs and constants. */
    @Nullable
    Node maker(String value) {
        return producers.get(unmoved(value));
    }

    /** The constant behind {@code value}, skipping moves, as stored in the file; null if there is none or callers may override it. */
    @Nullable
    Tensor constant(String value) {
        String v = unmoved(value);
        Initializer i = graph.initializers().get(v);
        return i == null || inputs.contains(v) ? null : i.tensor().orElse(null);
    }

    /** The constant of which {@code value} is all rows in their order, looked up by 0, 1, 2...; null where it is nothing of the kind. */
    @Nullable
    Tensor rows(String value) {
        Node n = maker(value);
        if (n == null || !n.is("Gather") || n.intAttribute("axis", 0) != 0) {
            return null;
        }
        Tensor table = constant(n.input(0));
        Tensor places = constant(n.input(1));
        boolean all = table != null
                && places != null
                && places.dtype() == DType.I64
                && table.shape().rank() > 0
                && places.shape().elementCount() == table.shape().dim(0)
                && Arrays.equals(
                        places.toLongs(),
                        LongStream.range(0, table.shape().dim(0)).toArray());
        return all ? table : null;
    }

    /** Whether {@code value} is a constant of one F32 element that equals {@code number}. */
    boolean isNumber(String value, float number) {
        Tensor t = constant(value);
        return t != null
                && t.dtype() == DType.F32
                && t.shape().elementCount() == 1
                && t.bytes().get(Tensor.F32_LE, 0) == number;
    }

    /** Dimensions of a value; empty if unknown. */
    List<Long> shape(String value) {
        List<Dim> dims = analysis == null ? null : analysis.dims(value);
        List<Long> sizes = new ArrayList<>();
        for (Dim d : dims == null ? List.<Dim>of() : dims) {
            Long size = d.size();
            if (size == null) {
                return List.of();
            }
            sizes.add(size);
        }
        return sizes;
    }

    /** Inputs of the graph that a value depends on. */
    Set<String> sources(String value) {
        Set<String> found = new HashSet<>();
        upstream(value).stream().filter(inputs::contains).forEach(found::add);
        return found;
    }

    /** Small constants of F32 that a value is computed from. */
    List<Tensor> floatsBehind(String value, long most) {
        List<Tensor> found = new ArrayList<>();
        for (String v : upstream(value)) {
            Optional<Tensor> t =
                    Optional.ofNullable(graph.initializers().get(v)).flatMap(Initializer::tensor);
            t.filter(c -> c.dtype() == DType.F32 && c.shape().elementCount() <= most)
                    .ifPresent(found::add);
        }
        return found;
    }

    /** All values that a value is computed from, including itself. */
    private Set<String> upstream(String value) {
        Set<String> seen = new HashSet<>();
        Deque<String> open = new ArrayDeque<>(List.of(value));
        while (!open.isEmpty()) {
            String v = open.pop();
            if (!seen.add(v)) {
                continue;
            }
            Node n = producers.get(v);
            if (n != null) {
                n.inputs().stream().filter(i -> !i.isEmpty()).forEach(open::push);
            }
        }
        return seen;
    }

    /** The kind of index of an embedding lookup. */
    enum Index {
        TOKENS,
        TYPES,
        POSITIONS,
        OTHER
    }

    /** Whether a value is computed from a running sum, as positions are that leave out padding. */
    private boolean isCounted(String value) {
        return upstream(value).stream().map(producers::get).anyMatch(n -> n != null && n.is("CumSum"));
    }

    /** The source of indices: an input by its name, or constants; all zeros are types, 0, 1, 2... are positions. */
    Index index(String value) {
        Set<String> from = sources(value);
        if (from.contains(OnnxInputs.TYPES)) {
            return Index.TYPES;
        }
        if (from.contains(OnnxInputs.POSITIONS)) {
            return Index.POSITIONS;
        }
        if (from.contains(OnnxInputs.TOKENS) || from.contains(OnnxInputs.TARGETS)) {
            return isCounted(value) ? Index.OTHER : Index.TOKENS;
        }
        return from.isEmpty() ? indexOfConstants(value) : Index.OTHER;
    }

    private Index indexOfConstants(String value) {
        String v = unmoved(value);
        for (Node n = producers.get(v); n != null; n = producers.get(v)) {
            if (!n.is("Gather") && !n.is("GatherElements") && !n.is("Slice")) {
                return Index.OTHER;
            }
            v = unmoved(n.input(0));
        }
        Tensor t = constant(v);
        if (t == null || t.dtype() != DType.I64 || t.shape().elementCount() == 0) {
            return Index.OTHER;
        }
        long[] all = t.toLongs();
        boolean zeros = true;
        boolean counts = true;
        for (int i = 0; i < all.length; i++) {
            zeros &= all[i] == 0;
            counts &= all[i] == i;
        }
        return zeros ? Index.TYPES : counts ? Index.POSITIONS : Index.OTHER;
    }
}
