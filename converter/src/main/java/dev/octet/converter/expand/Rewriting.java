package dev.octet.converter.expand;

import dev.octet.converter.infer.Analysis;
import dev.octet.converter.infer.KnownValue;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A node being decomposed: what is known of it, and short names for the operators that take its place.
 *
 * @param node the node
 * @param analysis of the graph before it was changed
 * @param e what replaces the node
 */
record Rewriting(Node node, Analysis analysis, Expansion e) {
    /** The first input. */
    String x() {
        return node.input(0);
    }

    /** The element type of the first input; null when unknown. */
    @Nullable
    DType dtype() {
        return analysis.dtype(x());
    }

    /** Sizes of input {@code i}; null when one of them is not known. */
    long @Nullable [] shape(int i) {
        return shapeOf(node.input(i));
    }

    /** Size of one axis of input {@code i}; null when not known. */
    @Nullable
    Long size(int i, int axis) {
        List<Dim> dims = analysis.dims(node.input(i));
        return dims == null || axis >= dims.size() ? null : dims.get(axis).size();
    }

    /** Sizes of the output; null when one of them is not known. */
    long @Nullable [] resultShape() {
        return shapeOf(node.output());
    }

    private long @Nullable [] shapeOf(String value) {
        List<Dim> dims = analysis.dims(value);
        if (dims == null) {
            return null;
        }
        long[] sizes = new long[dims.size()];
        for (int i = 0; i < sizes.length; i++) {
            Long size = dims.get(i).size();
            if (size == null) {
                return null;
            }
            sizes[i] = size;
        }
        return sizes;
    }

    /** Integers of input {@code i}; null when they are unknown or the input is absent. */
    long @Nullable [] integers(int i) {
        KnownValue known = node.hasInput(i) ? analysis.value(node.input(i)) : null;
        return known == null ? null : known.integers().orElse(null);
    }

    /** Whether the first input is of a float type that numbers can be written in. */
    boolean isFloat() {
        DType dtype = dtype();
        return dtype != null && dtype.isFloat() && dtype.bits() >= 16;
    }

    /**
     * The element type of the first input.
     *
     * @throws UnsupportedModelException when it is not known, or no float type that numbers can be written in
     */
    DType requireFloat() {
        DType dtype = dtype();
        if (dtype == null || !isFloat()) {
            throw refused(dtype == null ? "has an input of unknown type" : "works on " + dtype);
        }
        return dtype;
    }

    /** The error for a node that cannot be written; {@code problem} continues where the operator's name ends. */
    UnsupportedModelException refused(String problem) {
        return new UnsupportedModelException(
                "operator " + node.opType() + " " + problem + ", so it cannot be written with older operators",
                "node '" + node.id() + "'",
                "keep the model at the opset it has, or export it with shapes and types that are known");
    }

    /** A number of the first input's type. */
    String number(double value) {
        DType dtype = dtype();
        if (dtype == null) {
            throw new IllegalStateException("the type of '" + x() + "' was not asked for first");
        }
        return e.number(value, dtype);
    }

    String node(String op, String... inputs) {
        return e.node(op, List.of(inputs));
    }

    void last(String op, String... inputs) {
        e.last(op, List.of(inputs));
    }

    String reshape(String value, long... sizes) {
        return e.node("Reshape", List.of(value, e.numbers(sizes)), Attribute.of("allowzero", 1L));
    }

    void lastReshape(String value, long... sizes) {
        e.last("Reshape", List.of(value, e.numbers(sizes)), Attribute.of("allowzero", 1L));
    }

    String transpose(String value, List<Long> perm) {
        return e.node("Transpose", List.of(value), Attribute.of("perm", perm));
    }
}
