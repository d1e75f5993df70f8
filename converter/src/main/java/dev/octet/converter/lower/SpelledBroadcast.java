package dev.octet.converter.lower;

import dev.octet.converter.infer.Analysis;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Operands of one row that ONNX broadcasts and ONNX Runtime (1.29 and 1.30) does not: the mask of an Attention for all queries, the
 * tables of a RotaryEmbedding for all samples. They are expanded to their full shape, once for all nodes that read them.
 */
final class SpelledBroadcast {
    private static final int MASK = 3;

    private final GraphEdit edit;
    private final Analysis analysis;
    private final Map<List<Object>, String> spread = new HashMap<>();

    SpelledBroadcast(GraphEdit edit, Analysis analysis) {
        this.edit = edit;
        this.analysis = analysis;
    }

    /** Whether {@code n} had such an operand, and was replaced by another node. */
    boolean apply(Node n) {
        List<String> inputs = new ArrayList<>(n.inputs());
        if (n.is("Attention") && n.hasInput(MASK)) {
            List<Dim> q = analysis.dims(n.input(0));
            List<Dim> mask = analysis.dims(n.input(MASK));
            if (q != null && mask != null && q.size() > 2 && mask.size() > 1) {
                inputs.set(MASK, spread(n, n.input(MASK), mask.size() - 2, q.size() - 2));
            }
        }
        if (n.is("RotaryEmbedding") && !n.hasInput(3)) {
            for (int table = 1; table <= 2; table++) {
                inputs.set(table, spread(n, n.input(table), 0, 0));
            }
        }
        if (inputs.equals(n.inputs())) {
            return false;
        }
        edit.replace(n, n.withInputs(inputs));
        return true;
    }

    /** {@code value} as long on {@code axis} as the node's first input is on {@code likeAxis}; itself where it is not of length 1. */
    private String spread(Node n, String value, int axis, int likeAxis) {
        List<Dim> dims = analysis.dims(value);
        List<Dim> like = analysis.dims(n.input(0));
        Dim one = Dim.of(1);
        if (dims == null
                || like == null
                || !dims.get(axis).sameAs(one)
                || like.get(likeAxis).sameAs(one)) {
            return value;
        }
        Dim length = like.get(likeAxis);
        boolean sure = length.isKnown() || length.symbol() != null;
        List<Object> key = List.of(value, axis, sure ? length : n.id());
        return spread.computeIfAbsent(key, _ -> expand(n, value, axis, dims.size(), likeAxis));
    }

    private String expand(Node n, String value, int axis, int rank, int likeAxis) {
        String length = edit.freshName(value + "/length");
        String shape = edit.freshName(value + "/shape");
        String wide = edit.freshName(value + "/spread");
        List<String> sizes = new ArrayList<>();
        for (int i = 0; i < rank; i++) {
            sizes.add(i == axis ? length : one());
        }
        edit.insertBefore(
                n,
                Node.of(
                        length,
                        "Shape",
                        List.of(n.input(0)),
                        List.of(length),
                        Attribute.of("start", likeAxis),
                        Attribute.of("end", likeAxis + 1L)),
                Node.of(shape, "Concat", sizes, List.of(shape), Attribute.of("axis", 0L)),
                Node.of(wide, "Expand", List.of(value, shape), List.of(wide)));
        return wide;
    }

    private String one() {
        String name = "dev.octet.I64.1";
        if (edit.initializer(name) == null) {
            edit.putInitializer(Initializer.of(Tensor.ofLongs(Arena.ofAuto(), name, Shape.of(1), 1)));
        }
        return name;
    }
}
