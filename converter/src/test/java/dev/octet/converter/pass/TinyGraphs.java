package dev.octet.converter.pass;

import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;

/** Graphs of a few nodes, for tests. */
final class TinyGraphs {
    private TinyGraphs() {}

    /** A tensor whose elements are fixed pseudo-random numbers in [-2, 2). */
    static Tensor random(String name, long... dims) {
        SplittableRandom random = new SplittableRandom(name.hashCode());
        Shape shape = Shape.of(dims);
        float[] values = new float[(int) shape.elementCount()];
        for (int i = 0; i < values.length; i++) {
            values[i] = (float) random.nextDouble(-2, 2);
        }
        return Tensor.ofFloats(Arena.ofAuto(), name, shape, values);
    }

    static Tensor floats(String name, float... values) {
        return Tensor.ofFloats(Arena.ofAuto(), name, Shape.of(values.length), values);
    }

    static Tensor longs(String name, long... values) {
        return Tensor.ofLongs(Arena.ofAuto(), name, Shape.of(values.length), values);
    }

    static Tensor scalar(String name, long value) {
        return Tensor.ofLongs(Arena.ofAuto(), name, Shape.SCALAR, value);
    }

    /** An input or output; a dimension is a {@code Long}, an {@code Integer} or a symbol. */
    static ValueInfo value(String name, DType dtype, Object... dims) {
        List<Dim> list = Arrays.stream(dims)
                .map(d -> d instanceof Number n ? Dim.of(n.longValue()) : Dim.of(d.toString()))
                .toList();
        return new ValueInfo(name, new TensorType(dtype, list));
    }

    /** A value of a known type and unknown rank. */
    static ValueInfo rankless(String name, DType dtype) {
        return new ValueInfo(name, new TensorType(dtype, null));
    }

    /** A model of a given opset; tensors that are not inputs become initializers. */
    static GraphModel model(
            long opset, List<ValueInfo> inputs, List<ValueInfo> outputs, List<Tensor> constants, Node... nodes) {
        List<Initializer> initializers = new ArrayList<>();
        constants.forEach(t -> initializers.add(Initializer.of(t)));
        return GraphModel.of(Graph.of("tiny", List.of(nodes), initializers, inputs, outputs), 7, opset);
    }

    /** The only node of {@code model} with operator {@code op}. */
    static Node only(GraphModel model, String op) {
        List<Node> found = model.graph().nodes().stream().filter(n -> n.is(op)).toList();
        if (found.size() != 1) {
            throw new AssertionError(
                    found.size() + " nodes " + op + " in " + model.graph().nodes());
        }
        return found.getFirst();
    }

    /** Operators in order. */
    static List<String> operators(GraphModel model) {
        return model.graph().nodes().stream().map(Node::opType).toList();
    }

    /** Elements of an I64 initializer. */
    static List<Long> longs(GraphModel model, String name) {
        Initializer c = model.graph().initializers().get(name);
        if (c == null) {
            throw new AssertionError("no constant " + name + " in "
                    + model.graph().initializers().keySet());
        }
        return Arrays.stream(c.tensor().orElseThrow().toLongs()).boxed().toList();
    }
}
