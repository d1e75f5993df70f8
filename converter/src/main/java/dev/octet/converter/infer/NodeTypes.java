package dev.octet.converter.infer;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/** One node as a {@link TypeRule} sees it: the known types of its inputs, and a place for those of its outputs. */
final class NodeTypes {
    /** Larger ranks are refused: operators do not need them, and hostile axes could ask for any. */
    static final int MAX_RANK = 1024;

    private final Node node;
    private final Analysis analysis;
    private final List<@Nullable TensorType> outputs;

    NodeTypes(Node node, Analysis analysis) {
        this.node = node;
        this.analysis = analysis;
        this.outputs = new ArrayList<>(Collections.nCopies(node.outputs().size(), null));
    }

    Node node() {
        return node;
    }

    long opset() {
        return analysis.opset();
    }

    /** Element type of input {@code i}; null when absent or unknown. */
    @Nullable
    DType dtype(int i) {
        return node.hasInput(i) ? analysis.dtype(node.input(i)) : null;
    }

    /** Dimensions of input {@code i}; null when absent or unknown. */
    @Nullable
    List<Dim> dims(int i) {
        return node.hasInput(i) ? analysis.dims(node.input(i)) : null;
    }

    /** Elements of input {@code i} as far as known; null when absent or unknown. */
    @Nullable
    KnownValue value(int i) {
        return node.hasInput(i) ? analysis.value(node.input(i)) : null;
    }

    /** Integers of input {@code i}; null unless all are known. */
    long @Nullable [] integers(int i) {
        KnownValue v = value(i);
        return v == null ? null : v.integers().orElse(null);
    }

    /** Integers of an attribute; null when absent. */
    long @Nullable [] ints(String attribute) {
        Optional<List<Long>> list = node.intsAttribute(attribute);
        return list.map(l -> l.stream().mapToLong(Long::longValue).toArray()).orElse(null);
    }

    /** Axes given by the attribute of that name or by input 1: empty when given by neither, null when not known. */
    long @Nullable [] axes() {
        if (node.attribute("axes").orElse(null) instanceof Attribute.OfInts) {
            return ints("axes");
        }
        return node.hasInput(1) ? integers(1) : new long[0];
    }

    /** {@code axis} counted from the front. */
    int axis(long axis, int rank) {
        return Shapes.axis(axis, rank)
                .orElseThrow(() -> contradiction("axis " + axis + " is outside a tensor of rank " + rank));
    }

    /** The axis attribute counted from the front. */
    int axisAttribute(long fallback, int rank) {
        return axis(node.intAttribute("axis", fallback), rank);
    }

    /** Sets the type of output {@code i}; does nothing when the node lacks that output. */
    void set(int i, @Nullable DType dtype, @Nullable List<Dim> dims) {
        if (i < outputs.size() && (dtype != null || dims != null)) {
            outputs.set(i, new TensorType(dtype, dims));
        }
    }

    @Nullable
    TensorType derived(int i) {
        return outputs.get(i);
    }

    /** The error for a node that can never run, with the reason. */
    MalformedModelException contradiction(String what) {
        return Analysis.contradiction(node, what);
    }
}
