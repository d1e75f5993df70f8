package dev.octet.converter.rule;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.SplittableRandom;

/** Small graphs for tests, written as a list of lines. */
final class Sketch {
    private final List<Node> nodes = new ArrayList<>();
    private final List<Initializer> constants = new ArrayList<>();
    private final List<ValueInfo> inputs = new ArrayList<>();
    private final List<ValueInfo> outputs = new ArrayList<>();
    private long irVersion = 8;

    static Sketch sketch() {
        return new Sketch();
    }

    Sketch irVersion(long version) {
        irVersion = version;
        return this;
    }

    Sketch input(String name, DType dtype, long... dims) {
        inputs.add(info(name, dtype, dims));
        return this;
    }

    Sketch output(String name) {
        outputs.add(new ValueInfo(name, new ValueType.TensorType(DType.F32, null)));
        return this;
    }

    private static ValueInfo info(String name, DType dtype, long... dims) {
        List<Dim> list = new ArrayList<>();
        for (long d : dims) {
            list.add(Dim.of(d));
        }
        return new ValueInfo(name, new ValueType.TensorType(dtype, list));
    }

    /** An F32 constant of small different numbers. */
    Sketch weight(String name, long... dims) {
        constants.add(Initializer.of(ramp(name, dims)));
        return this;
    }

    static Tensor ramp(String name, long... dims) {
        Shape shape = Shape.of(dims);
        float[] values = new float[(int) shape.elementCount()];
        for (int i = 0; i < values.length; i++) {
            values[i] = (float) Math.sin(1 + i) / 2;
        }
        return Tensor.ofFloats(Arena.ofAuto(), name, shape, values);
    }

    /** F32 numbers that differ with the name. */
    static Tensor random(ValueType.TensorType type, String name) {
        SplittableRandom random = new SplittableRandom(name.hashCode());
        long[] dims = Objects.requireNonNull(type.dims()).stream()
                .mapToLong(d -> Objects.requireNonNull(d.size()))
                .toArray();
        float[] values = new float[(int) Shape.of(dims).elementCount()];
        for (int i = 0; i < values.length; i++) {
            values[i] = (float) random.nextGaussian();
        }
        return Tensor.ofFloats(Arena.ofAuto(), name, Shape.of(dims), values);
    }

    Sketch scalar(String name, double value) {
        constants.add(Initializer.of(number(name, DType.F32, value)));
        return this;
    }

    Sketch constant(Initializer i) {
        constants.add(i);
        return this;
    }

    /** A rank-0 tensor of any float type that exporters use. */
    static Tensor number(String name, DType dtype, double value) {
        Tensor t = numbers(name, dtype, value);
        return new Tensor(new TensorSpec(name, dtype, Shape.SCALAR), t.bytes());
    }

    /** A vector of any float type that exporters use. */
    static Tensor numbers(String name, DType dtype, double... values) {
        Tensor t = Tensor.allocate(Arena.ofAuto(), new TensorSpec(name, dtype, Shape.of(values.length)));
        for (int i = 0; i < values.length; i++) {
            float f = (float) values[i];
            switch (dtype) {
                case F64 -> t.bytes().setAtIndex(Tensor.F64_LE, i, values[i]);
                case F32 -> t.bytes().setAtIndex(Tensor.F32_LE, i, f);
                case F16 -> t.bytes().setAtIndex(Tensor.I16_LE, i, Float.floatToFloat16(f));
                // round half up is good enough for numbers written in tests
                case BF16 -> t.bytes().setAtIndex(Tensor.I16_LE, i, (short) ((Float.floatToIntBits(f) + 0x8000) >> 16));
                default -> throw new IllegalArgumentException(dtype + " is not used here");
            }
        }
        return t;
    }

    /** A Constant node holding a number. */
    Sketch constantNode(String name, double value) {
        return node(name, "Constant", "", name, Attribute.of("value", Initializer.of(number("", DType.F32, value))));
    }

    Sketch longs(String name, long... values) {
        constants.add(Initializer.of(Tensor.ofLongs(Arena.ofAuto(), name, Shape.of(values.length), values)));
        return this;
    }

    /** A node; {@code inputs} and {@code outputs} are names with spaces between. */
    Sketch node(String name, String op, String inputs, String outputs, Attribute... attributes) {
        nodes.add(Node.of(name, op, names(inputs), names(outputs), attributes));
        return this;
    }

    Sketch node(Node n) {
        nodes.add(n);
        return this;
    }

    private static List<String> names(String list) {
        return list.isEmpty() ? List.of() : List.of(list.split(" ", -1));
    }

    GraphModel model() {
        return GraphModel.of(Graph.of("sketch", nodes, constants, inputs, outputs), irVersion, 17);
    }

    FusePatterns.Result fuse() {
        return new FusePatterns().fuse(model());
    }

    static Tensor tensor(Graph g, String constant) {
        return Objects.requireNonNull(g.initializers().get(constant), constant)
                .tensor()
                .orElseThrow();
    }

    /** Types of the nodes that are left, in order. */
    static List<String> ops(FusePatterns.Result result) {
        return result.model().graph().nodes().stream().map(Node::opType).toList();
    }
}
