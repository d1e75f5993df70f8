package dev.octet.converter.checkpoint;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.number.Float8Format;
import java.lang.foreign.Arena;
import java.util.List;

/**
 * Writes nodes that round a value to E4M3 and back: the result, in F32, is exactly what FP8 kernels multiply.
 */
public final class QuantizedValues {
    private static final DType CODES = DType.F8_E4M3FN;

    /** Below it a scale would be subnormal; the rounded values are zero there anyway. */
    private static final float LEAST_AMAX = 1e-12f;

    private final GraphEdit edit;
    private final Arena arena;

    /**
     * Quantises values of one graph.
     *
     * @param arena owns new constants
     */
    public QuantizedValues(GraphEdit edit, Arena arena) {
        this.edit = edit;
        this.arena = arena;
    }

    /**
     * Quantises with a static scale.
     *
     * @param anchor the new nodes precede it
     * @return the rounded value
     */
    public String statically(Node anchor, String value, float scale) {
        String s = number(value + "_scale", scale);
        String zero = edit.freshName(value + "_zero");
        edit.putInitializer(Initializer.of(Tensor.allocate(arena, new TensorSpec(zero, CODES, Shape.SCALAR))));
        String codes = edit.freshName(value + "_codes");
        String values = edit.freshName(value + "_values");
        edit.insertBefore(
                anchor,
                Node.of(codes, "QuantizeLinear", List.of(value, s, zero), List.of(codes)),
                Node.of(values, "DequantizeLinear", List.of(codes, s, zero), List.of(values)));
        return values;
    }

    /** Quantises with one scale for each token: max(|x|) / 448 over the last axis; x / scale rounded, times scale. */
    public String perToken(Node anchor, String value) {
        return dynamically(anchor, value, value, List.of(axes(value)));
    }

    /** Quantises with one scale for the whole tensor. */
    public String perTensor(Node anchor, String value) {
        return dynamically(anchor, value, value, List.of());
    }

    /**
     * Quantises with one scale for each {@code size} neighbouring elements of a token.
     *
     * @param width elements of the last axis, a multiple of {@code size}
     */
    public String perGroup(Node anchor, String value, long width, long size) {
        String shape = node(anchor, value, "Shape", List.of(value), Attribute.of("start", 0), Attribute.of("end", -1));
        String split = node(
                anchor,
                value,
                "Concat",
                List.of(shape, longs(value + "_groups", width / size, size)),
                Attribute.of("axis", 0));
        String joined =
                node(anchor, value, "Concat", List.of(shape, longs(value + "_width", width)), Attribute.of("axis", 0));
        String groups = node(anchor, value, "Reshape", List.of(value, split));
        String rounded = dynamically(anchor, value, groups, List.of(axes(value)));
        return node(anchor, value, "Reshape", List.of(rounded, joined));
    }

    private String dynamically(Node anchor, String name, String value, List<String> axes) {
        String magnitude = node(anchor, name, "Abs", List.of(value));
        List<String> inputs = axes.isEmpty() ? List.of(magnitude) : List.of(magnitude, axes.getFirst());
        String amax = node(anchor, name, "ReduceMax", inputs, Attribute.of("keepdims", 1));
        String positive = node(anchor, name, "Max", List.of(amax, number(name + "_least", LEAST_AMAX)));
        String scale =
                node(anchor, name, "Div", List.of(positive, number(name + "_max", Float8Format.E4M3FN.maxValue())));
        String scaled = node(anchor, name, "Div", List.of(value, scale));
        String codes = node(anchor, name, "Cast", List.of(scaled), Attribute.of("to", CODES.onnxId()));
        String values = node(anchor, name, "Cast", List.of(codes), Attribute.of("to", DType.F32.onnxId()));
        return node(anchor, name, "Mul", List.of(values, scale));
    }

    private String node(Node anchor, String base, String type, List<String> inputs, Attribute... attributes) {
        String output = edit.freshName(base + "_" + type);
        edit.insertBefore(anchor, Node.of(output, type, inputs, List.of(output), attributes));
        return output;
    }

    private String axes(String base) {
        return longs(base + "_axes", -1);
    }

    private String longs(String base, long... values) {
        String name = edit.freshName(base);
        edit.putInitializer(Initializer.of(Tensor.ofLongs(arena, name, Shape.of(values.length), values)));
        return name;
    }

    private String number(String base, float value) {
        String name = edit.freshName(base);
        edit.putInitializer(Initializer.of(Tensor.ofFloats(arena, name, Shape.SCALAR, value)));
        return name;
    }
}
