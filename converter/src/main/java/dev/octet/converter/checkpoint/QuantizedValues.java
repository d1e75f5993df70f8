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
import dev.octet.quant.number.QuantType;
import java.lang.foreign.Arena;
import java.util.List;
import java.util.function.UnaryOperator;

/**
 * Writes nodes that round a value to a small number type and back: the result, in F32, is exactly what the kernels of that type multiply.
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

    /**
     * Quantises a query, key or value of {@code [batch, length, heads * size]} with a static scale for each head.
     *
     * @param scales one for each head
     */
    public String perHead(Node anchor, String value, float[] scales) {
        String split = node(anchor, value, "Reshape", List.of(value, longs(value + "_heads", 0, 0, scales.length, -1)));
        String perHead = edit.freshName(value + "_scales");
        edit.putInitializer(Initializer.of(Tensor.ofFloats(arena, perHead, Shape.of(scales.length), scales)));
        String zeros = edit.freshName(value + "_zeros");
        edit.putInitializer(
                Initializer.of(Tensor.allocate(arena, new TensorSpec(zeros, CODES, Shape.of(scales.length)))));
        Attribute axis = Attribute.of("axis", 2);
        String codes = node(anchor, value, "QuantizeLinear", List.of(split, perHead, zeros), axis);
        String rounded = node(anchor, value, "DequantizeLinear", List.of(codes, perHead, zeros), axis);
        return node(anchor, value, "Reshape", List.of(rounded, longs(value + "_joined", 0, 0, -1)));
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
        return grouped(anchor, value, width, size, groups -> dynamically(anchor, value, groups, List.of(axes(value))));
    }

    private String grouped(Node anchor, String value, long width, long size, UnaryOperator<String> rounding) {
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
        return node(anchor, value, "Reshape", List.of(rounding.apply(groups), joined));
    }

    /** Quantises to symmetric integers of eight bits with a static scale, ties to even. */
    public String integers(Node anchor, String value, float scale) {
        String by = number(value + "_scale", scale);
        String codes = node(anchor, value, "Round", List.of(node(anchor, value, "Div", List.of(value, by))));
        String held = node(
                anchor,
                value,
                "Clip",
                List.of(codes, number(value + "_lowest", Byte.MIN_VALUE), number(value + "_most", Byte.MAX_VALUE)));
        return node(anchor, value, "Mul", List.of(held, by));
    }

    /** Quantises to integers of eight bits with one scale and zero point for the range of the whole tensor. */
    public String affine(Node anchor, String value) {
        String codes = edit.freshName(value + "_codes");
        String scale = edit.freshName(codes + "_scale");
        String zero = edit.freshName(codes + "_zero");
        edit.insertBefore(anchor, Node.of(codes, "DynamicQuantizeLinear", List.of(value), List.of(codes, scale, zero)));
        return node(anchor, value, "DequantizeLinear", List.of(codes, scale, zero));
    }

    /**
     * Quantises to symmetric integers of eight bits with one scale for each token: max(|x|) / 127 over the last axis, ties to even.
     */
    public String integers(Node anchor, String value) {
        String scale = scale(anchor, value, value, List.of(axes(value)), QuantType.INT8.maxValue());
        String scaled = node(anchor, value, "Div", List.of(value, scale));
        String codes = node(anchor, value, "Round", List.of(scaled));
        return node(anchor, value, "Mul", List.of(codes, scale));
    }

    /**
     * Quantises to integers of eight bits with one scale and zero point for each token: its range, widened to hold zero, laid over all codes, which are made with the reciprocal of the
     * scale. So torchao has it ({@code choose_qparams_affine}, {@code _fake_quantize_affine}), and vLLM's kernel, which does not widen the range.
     */
    public String affinePerToken(Node anchor, String value) {
        String none = number(value + "_nothing", 0);
        String axes = axes(value);
        Attribute keep = Attribute.of("keepdims", 1);
        String least =
                node(anchor, value, "Min", List.of(node(anchor, value, "ReduceMin", List.of(value, axes), keep), none));
        String most =
                node(anchor, value, "Max", List.of(node(anchor, value, "ReduceMax", List.of(value, axes), keep), none));
        String span = node(anchor, value, "Sub", List.of(most, least));
        String exact = node(anchor, value, "Div", List.of(span, number(value + "_steps", 255)));
        String scale = node(anchor, value, "Max", List.of(exact, number(value + "_least", Float.MIN_NORMAL)));
        String low = number(value + "_lowest", Byte.MIN_VALUE);
        String high = number(value + "_most", Byte.MAX_VALUE);
        String below = node(anchor, value, "Round", List.of(node(anchor, value, "Div", List.of(least, scale))));
        String zero = node(anchor, value, "Clip", List.of(node(anchor, value, "Sub", List.of(low, below)), low, high));
        // ONNX Runtime makes one division of a Mul and a Div of 1
        String inverse = node(anchor, value, "Reciprocal", List.of(scale));
        String steps = node(anchor, value, "Round", List.of(node(anchor, value, "Mul", List.of(value, inverse))));
        String codes =
                node(anchor, value, "Clip", List.of(node(anchor, value, "Add", List.of(steps, zero)), low, high));
        return node(anchor, value, "Mul", List.of(node(anchor, value, "Sub", List.of(codes, zero)), scale));
    }

    /**
     * Quantises in blocks of {@code size} neighbouring elements of a token with a power of two as their scale:
     * {@code 2^ceil(log2(amax / 448))}, with which nothing saturates.
     *
     * @param width elements of the last axis, a multiple of {@code size}
     */
    public String microscaled(Node anchor, String value, long width, long size) {
        return grouped(anchor, value, width, size, groups -> {
            String exact = scale(anchor, value, groups, List.of(axes(value)), Float8Format.E4M3FN.maxValue());
            String scale = powerOfTwo(anchor, value, exact);
            return cast(anchor, value, groups, scale);
        });
    }

    /**
     * Quantises to E2M1 in blocks of {@code size} neighbouring elements of a token with E4M3 scales below one scale of the tensor (NVFP4).
     *
     * @param width elements of the last axis, a multiple of {@code size}
     * @param global the tensor's scale, a multiplier
     */
    public String fourBits(Node anchor, String value, long width, long size, float global) {
        return grouped(anchor, value, width, size, groups -> {
            String exact = scale(anchor, value, groups, List.of(axes(value)), Float8Format.E2M1.maxValue() * global);
            String held = node(
                    anchor, value, "Max", List.of(exact, number(value + "_low", Float8Format.E4M3FN.minPositive())));
            String codes = node(anchor, value, "Cast", List.of(held), Attribute.of("to", CODES.onnxId()));
            String block = node(anchor, value, "Cast", List.of(codes), Attribute.of("to", DType.F32.onnxId()));
            String scale = node(anchor, value, "Mul", List.of(block, number(value + "_global", global)));
            String scaled = node(anchor, value, "Div", List.of(groups, scale));
            return node(anchor, value, "Mul", List.of(nearestE2m1(anchor, value, scaled), scale));
        });
    }

    /** E2M1 has steps of 0.5 below 2, of 1 below 4, of 2 up to 6; Round takes ties to even, which here are even codes. */
    private String nearestE2m1(Node anchor, String base, String value) {
        float max = Float8Format.E2M1.maxValue();
        String held =
                node(anchor, base, "Clip", List.of(value, number(base + "_lowest", -max), number(base + "_most", max)));
        String magnitude = node(anchor, base, "Abs", List.of(held));
        String fine = node(anchor, base, "Less", List.of(magnitude, number(base + "_two", 2)));
        String middle = node(anchor, base, "Less", List.of(magnitude, number(base + "_four", 4)));
        String coarse =
                node(anchor, base, "Where", List.of(middle, number(base + "_step1", 1), number(base + "_step2", 2)));
        String step = node(anchor, base, "Where", List.of(fine, number(base + "_half", 0.5f), coarse));
        String steps = node(anchor, base, "Round", List.of(node(anchor, base, "Div", List.of(held, step))));
        return node(anchor, base, "Mul", List.of(steps, step));
    }

    /** The least power of two that is not below a positive value; the logarithm's rounding is put right by comparing. */
    private String powerOfTwo(Node anchor, String base, String value) {
        String two = number(base + "_base", 2);
        String one = number(base + "_one", 1);
        String log = node(anchor, base, "Log", List.of(value));
        String log2 = node(anchor, base, "Div", List.of(log, number(base + "_ln2", (float) Math.log(2))));
        String near = node(anchor, base, "Round", List.of(log2));
        String power = node(anchor, base, "Pow", List.of(two, near));
        String below = node(anchor, base, "Less", List.of(power, value));
        String up = node(anchor, base, "Where", List.of(below, two, one));
        String least = node(anchor, base, "Mul", List.of(power, up));
        String half = node(anchor, base, "Mul", List.of(least, number(base + "_half", 0.5f)));
        String tooMuch = node(anchor, base, "GreaterOrEqual", List.of(half, value));
        return node(anchor, base, "Where", List.of(tooMuch, half, least));
    }

    private String dynamically(Node anchor, String name, String value, List<String> axes) {
        return cast(anchor, name, value, scale(anchor, name, value, axes, Float8Format.E4M3FN.maxValue()));
    }

    /** {@code max(|x|) / max}; over all elements where there are no axes. */
    private String scale(Node anchor, String name, String value, List<String> axes, float max) {
        String magnitude = node(anchor, name, "Abs", List.of(value));
        List<String> inputs = axes.isEmpty() ? List.of(magnitude) : List.of(magnitude, axes.getFirst());
        String amax = node(anchor, name, "ReduceMax", inputs, Attribute.of("keepdims", 1));
        String positive = node(anchor, name, "Max", List.of(amax, number(name + "_least", LEAST_AMAX)));
        return node(anchor, name, "Div", List.of(positive, number(name + "_max", max)));
    }

    private String cast(Node anchor, String name, String value, String scale) {
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
